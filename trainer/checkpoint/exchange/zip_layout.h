#pragma once

#include <cstddef>
#include <cstdint>

/// Numbers of PKWARE's APPNOTE 6.3 ("ZIP File Format Specification"), sections 4.3.7 to 4.3.16 and 4.5.3.
namespace rollcall::checkpoint::exchange::zip {

inline constexpr std::uint32_t kLocalHeader = 0x04034b50;
inline constexpr std::uint32_t kCentralHeader = 0x02014b50;
inline constexpr std::uint32_t kEnd = 0x06054b50;
inline constexpr std::uint32_t kZip64End = 0x06064b50;
inline constexpr std::uint32_t kZip64Locator = 0x07064b50;

inline constexpr std::size_t kLocalHeaderBytes = 30;
inline constexpr std::size_t kCentralHeaderBytes = 46;
inline constexpr std::size_t kEndBytes = 22;
inline constexpr std::size_t kZip64EndBytes = 56;
inline constexpr std::size_t kZip64LocatorBytes = 20;
inline constexpr std::size_t kLongestComment = 65535;

inline constexpr std::uint16_t kZip64Extra = 0x0001;
inline constexpr std::uint16_t kEncrypted = 1;  ///< bit of the flags
inline constexpr std::uint16_t kNamesAreUtf8 = 1 << 11;
inline constexpr std::uint16_t kVersionNeeded = 45;     ///< of Zip64
inline constexpr std::uint32_t kIn64Bits = 0xffffffff;  ///< in place of a number that the Zip64 extra field holds
inline constexpr std::uint16_t kCountIn64Bits = 0xffff;

}  // namespace rollcall::checkpoint::exchange::zip
