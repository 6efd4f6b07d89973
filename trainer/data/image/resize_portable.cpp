// The reference for the vectorised versions, used on other CPUs.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/base/bfloat16.h"
#include "trainer/data/image/resize_kernels.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {
namespace {

/// Computes a * b + c, rounded once. Without FMA: the product is exact in double, so rounding the sum to double and
/// then to float is wrong only if the double is halfway between two floats; the library computes those.
inline float multiply_add(float a, float b, float c) {
#if defined(__FP_FAST_FMAF)
  return std::fma(a, b, c);
#else
  const double sum = static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c);
  constexpr std::uint64_t kLost = (std::uint64_t{1} << 29) - 1;
  if ((std::bit_cast<std::uint64_t>(sum) & kLost) == (std::uint64_t{1} << 28)) [[unlikely]] {
    return std::fma(a, b, c);
  }
  return static_cast<float>(sum);
#endif
}

void vertical(const std::uint8_t* source, std::ptrdiff_t row_bytes, const float* weights, int taps, int columns,
              float* strip) {
  for (int column = 0; column < columns; ++column) {
    float sum[4] = {};
    for (int k = 0; k < taps; ++k) {
      const std::uint8_t* pixel = source + k * row_bytes + static_cast<std::ptrdiff_t>(column) * 4;
      for (int c = 0; c < 4; ++c) {
        sum[c] = multiply_add(weights[k], static_cast<float>(pixel[c]), sum[c]);
      }
    }
    std::memcpy(strip + static_cast<std::ptrdiff_t>(column) * kStripFloats, sum, sizeof sum);
  }
}

void write(float* row, int x, const float* pixel) {
  std::memcpy(row + std::ptrdiff_t{x} * 3, pixel, 3 * sizeof(float));
}

void write(std::uint16_t* row, int x, const float* pixel) {
  for (int c = 0; c < 3; ++c) {
    row[std::ptrdiff_t{x} * 3 + c] = to_bfloat16(pixel[c]);
  }
}

void write(std::uint8_t* row, int x, const float* pixel) {
  for (int c = 0; c < 4; ++c) {
    row[std::ptrdiff_t{x} * 4 + c] = static_cast<std::uint8_t>(std::clamp(std::nearbyint(pixel[c]), 0.0F, 255.0F));
  }
}

template <typename Element>
void horizontal(const HorizontalPass& pass) {
  for (int x = 0; x < pass.width; ++x) {
    const int position = pass.flip ? pass.width - 1 - x : x;
    const float* column = pass.strip + std::ptrdiff_t{pass.first[position]} * kStripFloats;
    const float* weights = pass.weights + std::ptrdiff_t{position} * pass.taps;
    float sum[kStripFloats] = {};
    for (int k = 0; k < pass.taps; ++k, column += kStripFloats) {
      for (int i = 0; i < kStripFloats; ++i) {
        sum[i] = multiply_add(weights[k], column[i], sum[i]);
      }
    }
    for (std::size_t i = 0; i < kStripFloats; ++i) {
      sum[i] = multiply_add(sum[i], pass.scale[i % 4], pass.bias[i % 4]);
    }
    for (std::size_t row = 0; row < kStripRows; ++row) {
      write(static_cast<Element*>(pass.rows[row]), x, sum + 4 * row);
    }
  }
}

}  // namespace

const ResizeKernels kPortableResize{.name = "portable",
                                    .vertical = vertical,
                                    .to_float = horizontal<float>,
                                    .to_bfloat16 = horizontal<std::uint16_t>,
                                    .to_uint8 = horizontal<std::uint8_t>};

}  // namespace rollcall::data
