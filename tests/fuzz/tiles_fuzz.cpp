// Any bytes as a repacked JPEG with its tiling: the splice and the own entropy decoder give the same pixels or an
// Error, and never crash.
//
// Input: width, height (2 bytes each, little-endian), the box (4 bytes), the number of tiles and their lengths (2 bytes
// each), the JPEG.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "trainer/data/jpeg/entropy_decoder.h"
#include "trainer/data/jpeg/jpeg_file.h"

namespace {

using rollcall::Result;
using rollcall::data::Box;
using rollcall::data::ImageSize;
using rollcall::data::PixelView;
using rollcall::data::ReusableBuffer;
using rollcall::data::TiledJpeg;
using rollcall::data::TileGrid;
using rollcall::data::Tiling;

constexpr long long kMostPixels = 1 << 18;

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

  unsigned byte() {
    const unsigned value = rest_.empty() ? 0 : rest_.front();
    rest_ = rest_.subspan(std::min<std::size_t>(1, rest_.size()));
    return value;
  }
  unsigned number() {
    const unsigned low = byte();
    return low | byte() << 8;
  }
  [[nodiscard]] std::span<const std::byte> rest() const { return std::as_bytes(rest_); }

 private:
  std::span<const std::uint8_t> rest_;
};

Box box_in(ImageSize size, Input& input) {
  const auto part = [&](int whole) { return static_cast<int>(whole * (input.byte() / 256.0)); };
  Box box{part(size.width), part(size.height), 0, 0};
  box.width = 1 + part(size.width - box.left);
  box.height = 1 + part(size.height - box.top);
  return box;
}

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

bool same_pixels(const PixelView& a, const PixelView& b) {
  for (int y = a.area.top; y < a.area.bottom(); ++y) {
    for (int x = a.area.left; x < a.area.right(); ++x) {
      if (std::memcmp(a.at(x, y), b.at(x, y), 3) != 0) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static TiledJpeg splice(false);
  static TiledJpeg own(true);
  static ReusableBuffer splice_pixels;
  static ReusableBuffer own_pixels;
  require(rollcall::data::own_entropy_decoder_works());

  Input input(data, size);
  const int width = static_cast<int>(input.number());
  const ImageSize picture{width, static_cast<int>(input.number())};
  if (static_cast<long long>(picture.width) * picture.height > kMostPixels) {
    return 0;
  }
  const Box box = box_in(picture, input);
  std::vector<std::uint16_t> tile_bytes(input.number());
  for (std::uint16_t& length : tile_bytes) {
    length = static_cast<std::uint16_t>(input.number());
  }
  const Tiling tiling{.size = picture, .tile_bytes = tile_bytes};
  const bool opened = own.open(input.rest(), tiling).has_value();
  require(opened == splice.open(input.rest(), tiling).has_value());
  if (!opened) {
    return 0;
  }
  const Result<PixelView> a = own.decode(box, 1, own_pixels);
  const Result<PixelView> b = splice.decode(box, 1, splice_pixels);
  // Only ours looks at where a tile's data ends; only the splice decodes skipped rows and what lies right of the box.
  TileGrid grid;
  const bool decode_the_same = read_tile_grid(input.rest(), tiling, grid) && grid.coded_width == picture.width &&
                               box.right() == picture.width && box.top == 0;
  require(!a || b || !decode_the_same);
  require(!a || !b || same_pixels(*a, *b));
  return 0;
}
