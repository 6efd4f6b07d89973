#include "trainer/data/jpeg/markers.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace rollcall::data {
namespace {

constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::string_view kSignature("Exif\0\0", 6);
constexpr std::size_t kEntryBytes = 12;  // tag, type (2 each), count, value (4 each)

/// Reads a TIFF structure: numbers in the byte order that its first two bytes name; 0 beyond the end.
class Tiff {
 public:
  explicit Tiff(std::span<const std::byte> bytes) : bytes_(bytes), big_endian_(at(0) == 'M') {}

  [[nodiscard]] bool is_valid() const {
    return ((at(0) == 'M' && at(1) == 'M') || (at(0) == 'I' && at(1) == 'I')) && short_at(2) == 42;
  }
  [[nodiscard]] std::uint32_t short_at(std::size_t offset) const {
    return big_endian_ ? at(offset) << 8 | at(offset + 1) : at(offset + 1) << 8 | at(offset);
  }
  [[nodiscard]] std::uint32_t long_at(std::size_t offset) const {
    return big_endian_ ? short_at(offset) << 16 | short_at(offset + 2) : short_at(offset + 2) << 16 | short_at(offset);
  }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

 private:
  [[nodiscard]] std::uint32_t at(std::size_t offset) const {
    return offset < bytes_.size() ? std::to_integer<std::uint32_t>(bytes_[offset]) : 0;
  }

  std::span<const std::byte> bytes_;
  bool big_endian_;
};

std::uint32_t value_of(const Tiff& tiff, std::size_t entry) {
  constexpr std::uint32_t kShort = 3;
  constexpr std::uint32_t kLong = 4;
  const std::uint32_t type = tiff.short_at(entry + 2);
  return type == kShort ? tiff.short_at(entry + 8) : type == kLong ? tiff.long_at(entry + 8) : 0;
}

int orientation_in(const Tiff& tiff) {
  const std::size_t directory = tiff.long_at(4);
  const std::size_t entries = tiff.is_valid() ? tiff.short_at(directory) : 0;
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntryBytes;
    if (entry + kEntryBytes > tiff.size()) {
      break;
    }
    if (tiff.short_at(entry) == kOrientationTag) {
      const std::uint32_t value = value_of(tiff, entry);
      return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
  }
  return 1;
}

bool is_signed(std::span<const std::byte> block) {
  return block.size() > kSignature.size() &&
         std::equal(kSignature.begin(), kSignature.end(), reinterpret_cast<const char*>(block.data()));
}

}  // namespace

std::optional<JpegMarker> JpegSegments::next_marker() {
  constexpr std::byte kPrefix{0xff};
  bool after_prefix = false;
  for (; at_ < file_.size(); ++at_) {  // as libjpeg: skips foreign bytes, any number of prefixes, and prefixes of data
    if (after_prefix && file_[at_] != kPrefix && file_[at_] != std::byte{0}) {
      return static_cast<JpegMarker>(file_[at_++]);
    }
    after_prefix = file_[at_] == kPrefix;
  }
  return std::nullopt;
}

std::optional<JpegSegment> JpegSegments::next() {
  if (ended_) {
    return std::nullopt;
  }
  const std::optional<JpegMarker> marker = next_marker();
  ended_ = !marker || file_.size() - at_ < 2;
  if (ended_) {
    return std::nullopt;
  }
  const std::size_t length = uint16_at(file_, at_);  // its own two bytes count
  ended_ = length < 2 || length > file_.size() - at_;
  if (ended_) {
    return std::nullopt;
  }
  const JpegSegment segment{*marker, at_ + 2, file_.subspan(at_ + 2, length - 2)};
  at_ += length;
  ended_ = *marker == JpegMarker::StartOfScan;
  return segment;
}

int orientation_in_exif(std::span<const std::byte> block) {
  return orientation_in(Tiff(is_signed(block) ? block.subspan(kSignature.size()) : block));
}

int exif_orientation(std::span<const std::byte> jpeg) {
  JpegSegments segments(jpeg);
  while (const auto segment = segments.next()) {
    if (segment->marker == JpegMarker::App1 && is_signed(segment->content)) {
      return orientation_in_exif(segment->content);
    }
  }
  return 1;
}

}  // namespace rollcall::data
