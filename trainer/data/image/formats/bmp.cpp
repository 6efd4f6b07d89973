// Uncompressed BMP. No well-maintained library of Debian reads it alone. Source: Microsoft, "Bitmap Storage",
// BITMAPFILEHEADER (14 bytes), BITMAPCOREHEADER, BITMAPINFOHEADER, BITMAPV4HEADER and BITMAPV5HEADER. All numbers are
// little-endian.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

#include "trainer/data/image/whole_picture.h"

namespace rollcall::data {
namespace {

constexpr std::size_t kFileHeader = 14;
constexpr std::uint32_t kBitFields = 3;

/// The position of a channel in a pixel of 16 or 32 bits.
struct Channel {
  int shift = 0;
  std::uint32_t most = 0;

  static Channel from_mask(std::uint32_t mask) {
    const int shift = mask == 0 ? 0 : std::countr_zero(mask);
    return {shift, mask >> shift};
  }
  [[nodiscard]] std::uint8_t of(std::uint32_t pixel) const {
    return static_cast<std::uint8_t>((pixel >> shift & most) * 255 / most);
  }
};

class BmpPicture : public WholePicture {
 public:
  explicit BmpPicture(std::span<const std::byte> file) : file_(file) {}

  [[nodiscard]] Result<void> read_header() {
    if (file_.size() < kFileHeader + 12 || number_at(kFileHeader) > file_.size() - kFileHeader) {
      return cut();
    }
    const std::size_t bytes = number_at(kFileHeader);  // size of the header that follows, which identifies its kind
    constexpr std::array<std::size_t, 7> kHeaders{12, 40, 52, 56, 64, 108, 124};
    if (std::ranges::find(kHeaders, bytes) == kHeaders.end()) {
      return unknown();
    }
    const bool is_core = bytes == 12;
    const auto width = static_cast<std::int32_t>(is_core ? number_at(18, 2) : number_at(18));
    const auto height = static_cast<std::int32_t>(is_core ? number_at(20, 2) : number_at(22));
    bits_ = is_core ? number_at(24, 2) : number_at(28, 2);
    const std::uint32_t compression = is_core ? 0 : number_at(30);
    is_bottom_up_ = height > 0;
    header.size = {width, height == INT32_MIN ? 0 : std::abs(height)};
    const bool has_fields = compression == kBitFields && (bits_ == 16 || bits_ == 32);
    const bool is_indexed = bits_ == 1 || bits_ == 4 || bits_ == 8;
    if ((compression != 0 && !has_fields) || (!is_indexed && bits_ != 16 && bits_ != 24 && bits_ != 32)) {
      return unknown();
    }
    std::size_t at = kFileHeader + bytes;
    if (has_fields) {
      if (file_.size() < kFileHeader + 40 + 12) {
        return cut();
      }
      std::array<std::uint32_t, 3> masks{};
      for (std::size_t i = 0; i < channels_.size(); ++i) {
        masks[i] = number_at(kFileHeader + 40 + 4 * i);
        channels_[i] = Channel::from_mask(masks[i]);
      }
      const std::uint32_t alpha = bytes >= 56 && file_.size() >= kFileHeader + 56 ? number_at(kFileHeader + 52) : 0;
      if (!are_usual(masks, alpha)) {
        return unknown();
      }
    } else if (bits_ >= 16) {
      channels_ = bits_ == 16 ? std::array{Channel{10, 31}, Channel{5, 31}, Channel{0, 31}}
                              : std::array{Channel{16, 255}, Channel{8, 255}, Channel{0, 255}};
    }
    return is_indexed ? read_colours(at, is_core) : Result<void>();
  }

  [[nodiscard]] Result<void> decode(std::uint8_t* pixels) override {
    const auto width = static_cast<std::size_t>(header.size.width);
    const auto height = static_cast<std::size_t>(header.size.height);
    const std::size_t row_bytes = (width * bits_ + 31) / 32 * 4;
    const std::size_t first = number_at(10);
    if (first > file_.size() || file_.size() - first < row_bytes * height) {
      return cut();
    }
    for (std::size_t y = 0; y < height; ++y) {
      const std::size_t row = first + (is_bottom_up_ ? height - 1 - y : y) * row_bytes;
      for (std::size_t x = 0; x < width; ++x, pixels += kPixelBytes) {
        write_pixel(row, x, pixels);
      }
    }
    return {};
  }

 private:
  /// Returns whether Pillow knows the layout as well: 5 or 6 bits a channel in 16, or bytes in 32. Others are damage.
  [[nodiscard]] bool are_usual(const std::array<std::uint32_t, 3>& masks, std::uint32_t alpha) const {
    using Masks = std::array<std::uint32_t, 3>;
    if (bits_ == 16) {
      return masks == Masks{0xf800, 0x7e0, 0x1f} || masks == Masks{0x7c00, 0x3e0, 0x1f};
    }
    const auto is_byte = [](const Channel& each) { return each.most == 255 && each.shift % 8 == 0; };
    return std::ranges::all_of(channels_, is_byte) && (alpha == 0 || is_byte(Channel::from_mask(alpha))) &&
           masks[0] != masks[1] && masks[1] != masks[2] && masks[2] != masks[0];
  }

  /// Colours that are not in the table are grey, as in Pillow.
  [[nodiscard]] Result<void> read_colours(std::size_t at, bool is_core) {
    for (std::size_t i = 0; i < colours_.size(); ++i) {
      colours_[i].fill(static_cast<std::uint8_t>(i));
    }
    const std::size_t bytes = is_core ? 3 : 4;
    const std::size_t stated = is_core ? 0 : number_at(46);
    constexpr std::size_t kMostColours = 65536;
    if (stated > kMostColours) {
      return unknown();
    }
    const std::size_t count = std::min<std::size_t>(stated != 0 ? stated : std::size_t{1} << bits_, colours_.size());
    if (file_.size() - at < count * bytes) {
      return cut();
    }
    for (std::size_t i = 0; i < count; ++i, at += bytes) {
      colours_[i] = {byte_at(at + 2), byte_at(at + 1), byte_at(at)};
    }
    return {};
  }

  void write_pixel(std::size_t row, std::size_t x, std::uint8_t* out) const {
    if (bits_ <= 8) {
      const std::size_t bit = x * bits_;
      const unsigned index = unsigned{byte_at(row + bit / 8)} >> (8 - bits_ - bit % 8) & ((1U << bits_) - 1);
      std::copy_n(colours_[index].begin(), 3, out);
      return;
    }
    const std::uint32_t pixel = number_at(row + x * bits_ / 8, bits_ / 8);
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      out[i] = channels_[i].of(pixel);
    }
  }

  [[nodiscard]] std::uint8_t byte_at(std::size_t at) const { return std::to_integer<std::uint8_t>(file_[at]); }
  [[nodiscard]] std::uint32_t number_at(std::size_t at, std::size_t bytes = 4) const {
    std::uint32_t number = 0;
    for (std::size_t i = bytes; i-- > 0;) {
      number = number << 8U | byte_at(at + i);
    }
    return number;
  }

  [[nodiscard]] static Error cut() { return damaged("is a damaged BMP file (it is truncated)"); }
  [[nodiscard]] static Error unknown() {
    return damaged("is a BMP file of an unsupported kind: compressed, or with an unusual pixel format");
  }

  std::span<const std::byte> file_;
  std::uint32_t bits_ = 0;  ///< of a pixel
  bool is_bottom_up_ = true;
  std::array<Channel, 3> channels_{};
  std::array<std::array<std::uint8_t, 3>, 256> colours_{};
};

}  // namespace

OpenedPicture open_bmp(std::span<const std::byte> file) {
  auto picture = std::make_unique<BmpPicture>(file);
  const Result<void> read = picture->read_header();
  return read ? OpenedPicture(std::move(picture)) : read.error();
}

}  // namespace rollcall::data
