#include "benchmarks/gpu/convolution_check.h"

#include <cuda_fp16.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/base/bfloat16.h"

namespace rollcall::cudnn {
namespace {

/// Steps of 1/64, so few that 8 bits represent each.
float uniform(std::int64_t index, std::uint32_t seed, int lowest, int highest) {
  auto bits = static_cast<std::uint32_t>(index % kPeriod) * 2654435761U + seed * 40503U;
  bits = (bits ^ (bits >> 15)) * 2246822519U;
  bits ^= bits >> 13;
  const int range = highest - lowest + 1;
  return static_cast<float>(lowest + static_cast<int>(bits % static_cast<std::uint32_t>(range))) / 64.0F;
}

/// The power of two below the root of how many products are added up for an output.
float divisor(const Shape& shape) {
  const auto products = static_cast<double>(shape.inputs * shape.kernel * shape.kernel);
  return static_cast<float>(std::exp2(std::floor(std::log2(products) / 2)));
}

/// What the convolution sees of x.
double seen(const Shape& shape, bool prologue, std::int64_t index) {
  const double x = element(Operand::X, index, shape);
  const std::int64_t channel = index % shape.inputs;
  return prologue ? std::max(0.0, element(Operand::Scale, channel, shape) * x + element(Operand::Bias, channel, shape))
                  : x;
}

/// An output; `row` and `column` are its pixel's.
double expected(const Shape& shape, bool prologue, std::int64_t image, std::int64_t row, std::int64_t column,
                std::int64_t channel) {
  double sum = 0;
  for (std::int64_t r = 0; r < shape.kernel; ++r) {
    for (std::int64_t s = 0; s < shape.kernel; ++s) {
      const std::int64_t h = row * shape.stride + r - shape.padding();
      const std::int64_t w = column * shape.stride + s - shape.padding();
      if (h < 0 || h >= shape.side || w < 0 || w >= shape.side) {
        continue;  // padded with zeros, also behind a prologue
      }
      const std::int64_t pixel = ((image * shape.side + h) * shape.side + w) * shape.inputs;
      const std::int64_t tap = ((channel * shape.kernel + r) * shape.kernel + s) * shape.inputs;
      for (std::int64_t c = 0; c < shape.inputs; ++c) {
        sum += seen(shape, prologue, pixel + c) * element(Operand::Weights, tap + c, shape);
      }
    }
  }
  return sum;
}

/// Of the channels of a pixel, at most 64 are looked at.
std::string wrong_pixel(const Shape& shape, bool prologue, cudnnDataType_t type, std::span<const std::uint16_t> y,
                        std::int64_t image, std::int64_t row, std::int64_t column) {
  const std::int64_t side = shape.output_side();
  const std::int64_t first = ((image * side + row) * side + column) * shape.outputs;
  for (std::int64_t channel = 0; channel < shape.outputs; channel += std::max<std::int64_t>(1, shape.outputs / 64)) {
    const double should = expected(shape, prologue, image, row, column, channel);
    const double is = decoded(y[static_cast<std::size_t>(first + channel)], type);
    if (!(std::abs(is - should) <= kTolerance * std::max(1.0, std::abs(should)))) {
      return fmt::format("image {}, row {}, column {}, channel {}: {}, not {}", image, row, column, channel, is,
                         should);
    }
  }
  return "";
}

std::string wrong_sums(const Shape& shape, cudnnDataType_t type, std::span<const std::uint16_t> y, double sum,
                       double squares, std::int64_t channel) {
  double sum_of_y = 0;
  double squares_of_y = 0;
  for (std::size_t i = static_cast<std::size_t>(channel); i < y.size(); i += static_cast<std::size_t>(shape.outputs)) {
    const double value = decoded(y[i], type);
    sum_of_y += value;
    squares_of_y += value * value;
  }
  const double count = static_cast<double>(y.size()) / static_cast<double>(shape.outputs);
  const bool right = std::abs(sum - sum_of_y) <= kTolerance * std::sqrt(count * squares_of_y) &&
                     std::abs(squares - squares_of_y) <= kTolerance * squares_of_y;
  return right ? ""
               : fmt::format("channel {}: sum {} and sum of squares {}, not {} and {}", channel, sum, squares, sum_of_y,
                             squares_of_y);
}

}  // namespace

std::uint16_t encoded(float value, cudnnDataType_t type) {
  return type == CUDNN_DATA_BFLOAT16 ? to_bfloat16(value) : std::bit_cast<__half_raw>(__float2half(value)).x;
}

float decoded(std::uint16_t bits, cudnnDataType_t type) {
  return type == CUDNN_DATA_BFLOAT16 ? from_bfloat16(bits) : __half2float(__half(__half_raw{bits}));
}

float element(Operand operand, std::int64_t index, const Shape& shape) {
  switch (operand) {
    case Operand::X:
      return uniform(index, 1, -32, 96);
    case Operand::Weights:
      return uniform(index, 2, -64, 64) / divisor(shape);
    case Operand::Scale:
      return uniform(index, 3, 32, 96);
    case Operand::Bias:
      break;
  }
  return uniform(index, 4, -32, 32);
}

std::vector<std::uint16_t> elements(Operand operand, std::int64_t count, const Shape& shape, cudnnDataType_t type) {
  std::vector<std::uint16_t> made(static_cast<std::size_t>(std::min(count, kPeriod)));
  for (std::int64_t index = 0; std::uint16_t & bits : made) {
    bits = encoded(element(operand, index++, shape), type);
  }
  return made;
}

std::string what_is_wrong(const Shape& shape, bool prologue, cudnnDataType_t type, std::span<const std::uint16_t> y,
                          std::span<const float> sum, std::span<const float> squares) {
  const std::int64_t last = shape.output_side() - 1;
  std::string wrong = wrong_pixel(shape, prologue, type, y, 0, 0, 0);
  wrong = wrong.empty() ? wrong_pixel(shape, prologue, type, y, shape.batch / 2, last / 2, last / 3) : wrong;
  wrong = wrong.empty() ? wrong_pixel(shape, prologue, type, y, shape.batch - 1, last, last) : wrong;
  for (std::int64_t channel = 0; wrong.empty() && !sum.empty() && channel < shape.outputs;
       channel += shape.outputs - 1) {
    const auto i = static_cast<std::size_t>(channel);
    wrong = wrong_sums(shape, type, y, sum[i], squares[i], channel);
  }
  return wrong;
}

}  // namespace rollcall::cudnn
