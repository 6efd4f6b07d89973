#include "trainer/data/transforms/affine.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>

namespace rollcall::data {
namespace {

/// From output to source positions, both relative to the picture's centre:
/// x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5].
using Matrix = std::array<double, 6>;

/// To the nearest whole number, halves to even, for |value| < 2^22: there a float's last bit stands for 1 once 1.5 *
/// 2^23 was added. The library's functions cost more than all the rest of a pixel.
int nearest_integer(float value) {
  constexpr float kShift = 12582912.0F;
  return std::bit_cast<std::int32_t>(value + kShift) - std::bit_cast<std::int32_t>(kShift);
}

/// One coordinate of the source, in torchvision's order of float32 operations: a position in units of half the size,
/// and from there back to pixels, as grid_sample does.
struct Coordinate {
  float by_x = 0;
  float by_y = 0;
  float constant = 0;
  float half_size = 0;

  Coordinate(const double* row, int size) : half_size(0.5F * static_cast<float>(size)) {
    by_x = static_cast<float>(row[0]) / half_size;
    by_y = static_cast<float>(row[1]) / half_size;
    constant = static_cast<float>(row[2]) / half_size;
  }

  [[nodiscard]] int nearest(float x, float y) const {
    const float normalised = x * by_x + y * by_y + constant;
    return nearest_integer((normalised + 1) * half_size - 0.5F);
  }
};

void sample_nearest(const Levels& levels, const Matrix& matrix, AugmentScratch& scratch) {
  scratch.copy.assign(levels.bytes().begin(), levels.bytes().end());
  const Levels source{scratch.copy.data(), levels.width, levels.height};
  const Coordinate across(&matrix[0], levels.width);
  const Coordinate down(&matrix[3], levels.height);
  const float left = 0.5F * static_cast<float>(1 - levels.width);
  const float top = 0.5F * static_cast<float>(1 - levels.height);
  for (int y = 0; y < levels.height; ++y) {
    std::uint8_t* to = levels.at(0, y);
    for (int x = 0; x < levels.width; ++x, to += kPixelBytes) {
      const int from_x = across.nearest(left + static_cast<float>(x), top + static_cast<float>(y));
      const int from_y = down.nearest(left + static_cast<float>(x), top + static_cast<float>(y));
      std::uint32_t pixel = 0;
      if (from_x >= 0 && from_x < levels.width && from_y >= 0 && from_y < levels.height) {
        std::memcpy(&pixel, source.at(from_x, from_y), kPixelBytes);
      }
      std::memcpy(to, &pixel, kPixelBytes);
    }
  }
}

}  // namespace

void shear(const Levels& levels, double x, double y, AugmentScratch& scratch) {
  // The inverse of [1, x; y, 1] as torchvision composes it (one of the two is 0), around the top left corner.
  const double corner_x = -0.5 * levels.width;
  const double corner_y = -0.5 * levels.height;
  const Matrix matrix{1, x, -x * corner_y, y, 1, -y * corner_x};
  sample_nearest(levels, matrix, scratch);
}

void translate(const Levels& levels, int x, int y, AugmentScratch& scratch) {
  const Matrix matrix{1, 0, -static_cast<double>(x), 0, 1, -static_cast<double>(y)};
  sample_nearest(levels, matrix, scratch);
}

void rotate(const Levels& levels, double degrees, AugmentScratch& scratch) {
  const double angle = degrees * std::numbers::pi / 180;
  const Matrix matrix{std::cos(angle), -std::sin(angle), 0, std::sin(angle), std::cos(angle), 0};
  sample_nearest(levels, matrix, scratch);
}

}  // namespace rollcall::data
