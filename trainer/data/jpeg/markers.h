#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rollcall::data {

/// The markers of a JPEG file's header that are distinguished here (ITU-T T.81, table B.1). Others keep their number.
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

/// A marker and the content after its length.
struct JpegSegment {
  JpegMarker marker = {};
  std::size_t at = 0;  ///< offset of the content in the file
  std::span<const std::byte> content;
};

/// Iterates over the segments of a JPEG file, from its start to the header of the first scan, which is the last one
/// returned. Ends early at invalid bytes, without reading outside the file.
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

/// Returns the big-endian 16-bit number at an offset, which must be inside `bytes`.
[[nodiscard]] inline unsigned uint16_at(std::span<const std::byte> bytes, std::size_t offset) {
  return std::to_integer<unsigned>(bytes[offset]) << 8 | std::to_integer<unsigned>(bytes[offset + 1]);
}

/// Returns the orientation in an EXIF block, with or without "Exif\0\0" before it: 1 (as stored) ... 8, see
/// Orientation; 1 if there is none or it is invalid. Never reads outside the block. Thread-safe: pure. Source: Exif
/// 2.32 (CIPA DC-008), 4.6.4 tag 0x0112 and 4.7.2 APP1; TIFF 6.0, section 2.
[[nodiscard]] int orientation_in_exif(std::span<const std::byte> block);

/// Returns the orientation in a JPEG file's EXIF block, or 1.
[[nodiscard]] int exif_orientation(std::span<const std::byte> jpeg);

}  // namespace rollcall::data
