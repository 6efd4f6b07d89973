#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rollcall::storage {

/// Returns the CRC-32C (Castagnoli) of `bytes`, as in iSCSI (RFC 3720, B.4), Btrfs and Google's crc32c: reflected,
/// initial value and final XOR 0xffffffff. To continue over several pieces, pass the result for the earlier ones as
/// `previous`. Uses CPU instructions (ISA-L). Thread-safe: pure.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0);

/// Returns the CRC-32C of two concatenated byte strings from the CRC-32C of each and the length of the second, in O(log
/// length): different ranks compute the sums of the parts of one tensor. Thread-safe: pure.
[[nodiscard]] std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

/// Returns the CRC-32 of `bytes` as in zip and gzip (ISO-HDLC: polynomial 0x04c11db7, reflected, initial value and
/// final XOR 0xffffffff). rollcall's own files use CRC-32C. Uses CPU instructions (ISA-L). Thread-safe.
[[nodiscard]] std::uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace rollcall::storage
