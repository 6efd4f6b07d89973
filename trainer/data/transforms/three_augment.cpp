#include "trainer/data/transforms/three_augment.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "trainer/data/transforms/operations.h"

namespace rollcall::data {
namespace {

/// A mean over 2 * radius + 1 pixels and a part of the next one on each side. The weights add up to 2^24.
struct Box1D {
  int radius = 0;
  std::uint32_t inner = 0;
  std::uint32_t outer = 0;
};

/// Returns the box of which `passes` in a row have the variance of the Gaussian, in Pillow's float32.
Box1D box_of(float deviation, int passes) {
  const float variance = deviation * deviation / static_cast<float>(passes);
  const auto length = static_cast<float>(std::sqrt(12.0 * static_cast<double>(variance) + 1.0));
  const auto whole = static_cast<float>(std::floor((static_cast<double>(length) - 1.0) / 2.0));
  const float next = whole + 1;
  const float part = (2 * whole + 1) * (whole * next - 3 * variance) / (6 * (variance - next * next));
  const float radius = whole + part;
  constexpr std::uint32_t kOne = 1U << 24U;
  Box1D box{.radius = static_cast<int>(radius)};
  box.inner = static_cast<std::uint32_t>(static_cast<float>(kOne) / (radius * 2 + 1));
  box.outer = (kOne - static_cast<std::uint32_t>(2 * box.radius + 1) * box.inner) / 2;
  return box;
}

/// Blurs `count` levels, each `stride` bytes after the previous one.
void blur_line(std::uint8_t* line, int count, std::ptrdiff_t stride, const Box1D& box, AugmentScratch& scratch) {
  const int margin = box.radius + 1;
  const int length = count + 2 * margin;
  scratch.copy.resize(static_cast<std::size_t>(length));
  std::uint8_t* const padded = scratch.copy.data();
  for (int i = 0; i < length; ++i) {
    padded[i] = line[std::clamp(i - margin, 0, count - 1) * stride];
  }
  std::uint32_t sum = 0;
  for (int i = 1; i < 2 * margin; ++i) {
    sum += padded[i];
  }
  constexpr std::uint32_t kHalf = 1U << 23U;
  for (int i = 0; i < count; ++i) {
    const auto ends = static_cast<std::uint32_t>(padded[i] + padded[i + 2 * margin]);
    line[i * stride] = static_cast<std::uint8_t>((sum * box.inner + ends * box.outer + kHalf) >> 24U);
    sum += padded[i + 2 * margin];
    sum -= padded[i + 1];
  }
}

}  // namespace

void to_greyscale(const UInt8Image& image) {
  std::uint8_t* pixel = image.pixels;
  for (std::size_t i = 0; i < image.count(); ++i, pixel += kPixelBytes) {
    const std::uint32_t grey = (19595U * pixel[0] + 38470U * pixel[1] + 7471U * pixel[2] + 0x8000U) >> 16U;
    pixel[0] = pixel[1] = pixel[2] = static_cast<std::uint8_t>(grey);
  }
}

void gaussian_blur(const UInt8Image& image, double radius, AugmentScratch& scratch) {
  constexpr int kPasses = 3;
  const Box1D box = box_of(static_cast<float>(radius), kPasses);
  const std::ptrdiff_t row_bytes = std::ptrdiff_t{image.width} * kPixelBytes;
  for (int channel = 0; channel < 3; ++channel) {
    for (int y = 0; y < image.height; ++y) {
      for (int pass = 0; pass < kPasses; ++pass) {
        blur_line(image.at(0, y) + channel, image.width, kPixelBytes, box, scratch);
      }
    }
    for (int x = 0; x < image.width; ++x) {
      for (int pass = 0; pass < kPasses; ++pass) {
        blur_line(image.at(x, 0) + channel, image.height, row_bytes, box, scratch);
      }
    }
  }
}

void three_augment(const UInt8Image& image, Random& random, AugmentScratch& scratch) {
  switch (random.below(3)) {
    case 0:
      return to_greyscale(image);
    case 1:
      return ToneCurve::solarize(128).apply(image);
    default:
      return gaussian_blur(image, random.uniform(0.1, 2), scratch);
  }
}

}  // namespace rollcall::data
