#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/data/image/image_decoder.h"
#include "trainer/data/pixels.h"

namespace rollcall::test {

/// A picture of three bytes a pixel, as Pillow and test data have it.
struct RgbImage {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> pixels;  ///< [height][width][3]
};

/// The same as a decoder gives it; keep it as long as its view.
class RgbxPixels {
 public:
  explicit RgbxPixels(const RgbImage& image) : size_{image.width, image.height} {
    for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
      rgbx_.insert(rgbx_.end(), {image.pixels[i], image.pixels[i + 1], image.pixels[i + 2], 99});
    }
    rgbx_.resize(rgbx_.size() + 16);
  }

  [[nodiscard]] data::PixelView view() const {
    return {rgbx_.data(), static_cast<std::ptrdiff_t>(size_.width) * 4, {0, 0, size_.width, size_.height}};
  }

 private:
  data::ImageSize size_;
  std::vector<std::uint8_t> rgbx_;
};

/// The pixels of `box`, which the view covers.
inline RgbImage copy_of(const data::PixelView& view, const data::Box& box) {
  RgbImage image{box.width, box.height, {}};
  for (int y = box.top; y < box.bottom(); ++y) {
    for (int x = box.left; x < box.right(); ++x) {
      image.pixels.insert(image.pixels.end(), view.at(x, y), view.at(x, y) + 3);
    }
  }
  return image;
}

/// Decodes a whole file.
inline Result<RgbImage> decode(std::span<const std::byte> file) {
  data::ImageDecoder decoder;
  const Result<data::ImageSize> size = decoder.open({.bytes = file});
  if (!size) {
    return size.error();
  }
  const data::Box whole{0, 0, size->width, size->height};
  const Result<data::PixelView> view = decoder.decode(whole);
  return view ? Result<RgbImage>(copy_of(*view, whole)) : view.error();
}

/// A square of floats as a place for a sample.
inline data::OutputPixels square_of(std::vector<float>& pixels, int side) {
  pixels.resize(static_cast<std::size_t>(side) * static_cast<std::size_t>(side) * 3);
  return {pixels.data(), data::PixelType::Float32, side, side};
}

}  // namespace rollcall::test
