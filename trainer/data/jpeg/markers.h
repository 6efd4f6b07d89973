#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rollcall::data {

/// The markers of a JPEG file's header that are told apart here (ITU-T T.81, table B.1); others keep their number.
enum class JpegMarker : std::uint8_t {
  BaselineFrame = 0xc0,
  ExtendedFrame = 0xc1,
  HuffmanTables = 0xc4,
  Restart0 = 0xd0,
  EndOfImage = 0xd9,
  StartOfScan = 0xda,
  QuantisationTables = 0xdb,
  RestartInterval = 0xdd,
  App0 = 0xe0,
  App1 = 0xe1,
  App14 = 0xee,
};

/// A marker with the content behind its length.
struct JpegSegment {
  JpegMarker marker = {};
  std::size_t at = 0;  ///< offset of the content in the file
  std::span<const std::byte> content;
};

/// Walks through the segments of a JPEG file from its start to the first scan's header, which is the last one given.
/// Ends early where the bytes make no sense, without reading any outside the file.
class JpegSegments {
 public:
  explicit JpegSegments(std::span<const std::byte> file) : file_(file) {}

  [[nodiscard]] std::optional<JpegSegment> next();

 private:
  [[nodiscard]] std::optional<JpegMarker> next_marker();

  std::span<const std::byte> file_;
  std::size_t at_ = 2;  // behind StartOfImage
  bool ended_ = false;
};

/// The big-endian 16-bit number at an offset, which lies inside.
[[nodiscard]] inline unsigned uint16_at(std::span<const std::byte> bytes, std::size_t offset) {
  return std::to_integer<unsigned>(bytes[offset]) << 8 | std::to_integer<unsigned>(bytes[offset + 1]);
}

/// The orientation that an EXIF block names, with or without "Exif\0\0" before it: 1 (as stored) ... 8, see
/// Orientation; 1 where there is none or it makes no sense. Reads no byte outside the file, whatever it holds.
/// Thread-safe: pure. Source: Exif 2.32 (CIPA DC-008), 4.6.4 tag 0x0112 and 4.7.2 APP1; TIFF 6.0, section 2.
[[nodiscard]] int orientation_in_exif(std::span<const std::byte> block);

/// The same of a JPEG file's EXIF block.
[[nodiscard]] int exif_orientation(std::span<const std::byte> jpeg);

}  // namespace rollcall::data
