#include "trainer/tools/checkpoint/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace rollcall::checkpoint_tool {
namespace {

using checkpoint::format::DType;

template <typename Number>
void put(std::span<std::byte> out, std::size_t index, Number number) {
  std::memcpy(out.data() + index * sizeof(number), &number, sizeof(number));
}

}  // namespace

float half_to_float(std::uint16_t half) {
  const bool negative = (half & 0x8000U) != 0;
  const int exponent = (half >> 10U) & 0x1f;
  const int fraction = half & 0x3ff;
  float magnitude = 0;
  if (exponent == 0x1f) {
    magnitude = fraction == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
  }
  return negative ? -magnitude : magnitude;
}

std::uint16_t float_to_half(float number) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(number) ? 0x8000 : 0);
  const float magnitude = std::fabs(number);
  if (std::isnan(number)) {
    return sign | 0x7e00;
  }
  if (magnitude >= 65520.0F) {  // halfway beyond the largest finite number
    return sign | 0x7c00;
  }
  if (magnitude < 0x1p-14F) {  // subnormal: a multiple of 2^-24; nearbyint rounds ties to even
    return sign | static_cast<std::uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  }
  int exponent = 0;
  const float fraction = std::frexp(magnitude, &exponent);  // in [0.5, 1)
  const auto rounded =
      static_cast<int>(std::nearbyint(std::ldexp(fraction, 11)));  // 1024 to 2048; a carry into the exponent is correct
  return sign | static_cast<std::uint16_t>(((exponent + 14) << 10) + (rounded - 0x400));
}

std::uint16_t float_to_bfloat16(float number) {
  if (std::isnan(number)) {
    return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(number) >> 16U) | 0x40U);
  }
  return to_bfloat16(number);
}

bool is_floating_point(DType dtype) {
  return dtype == DType::Float16 || dtype == DType::BFloat16 || dtype == DType::Float32 || dtype == DType::Float64;
}

void write_elements(std::span<const double> numbers, DType dtype, std::span<std::byte> out) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double number = numbers[i];
    if (dtype == DType::Float64) {
      put(out, i, number);
    } else if (dtype == DType::Float32) {
      put(out, i, static_cast<float>(number));
    } else if (dtype == DType::Float16) {
      put(out, i, float_to_half(static_cast<float>(number)));
    } else {
      put(out, i, float_to_bfloat16(static_cast<float>(number)));
    }
  }
}

namespace {

using checkpoint::format::DType;
using checkpoint::format::dtype_size;

template <typename Read>
Statistics gather(std::span<const std::byte> bytes, std::size_t size, Read read) {
  Statistics found{.elements = bytes.size() / size,
                   .minimum = std::numeric_limits<double>::infinity(),
                   .maximum = -std::numeric_limits<double>::infinity()};
  double sum = 0;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    const double number = read(bytes.data() + at);
    found.nan += std::isnan(number);
    found.infinite += std::isinf(number);
    found.zeros += number == 0;
    if (std::isfinite(number)) {
      found.minimum = std::min(found.minimum, number);
      found.maximum = std::max(found.maximum, number);
      sum += number;
    }
  }
  const auto finite = static_cast<double>(found.elements - found.nan - found.infinite);
  if (finite == 0) {
    found.minimum = found.maximum = 0;
    return found;
  }
  found.mean = sum / finite;
  double squares = 0;  // from a second pass: the difference of large sums would be mostly rounding
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    const double number = read(bytes.data() + at);
    squares += std::isfinite(number) ? (number - found.mean) * (number - found.mean) : 0;
  }
  found.stddev = std::sqrt(squares / finite);
  return found;
}

template <typename Read>
Difference compare(std::span<const std::byte> a, std::span<const std::byte> b, std::size_t size, bool floating,
                   Read read) {
  Difference found{.elements = a.size() / size};
  double sum = 0;
  for (std::size_t at = 0; at < a.size(); at += size) {
    if (std::memcmp(a.data() + at, b.data() + at, size) == 0) {
      continue;
    }
    const double left = read(a.data() + at);
    const double right = read(b.data() + at);
    if (floating && (left == right || (std::isnan(left) && std::isnan(right)))) {
      continue;
    }
    ++found.differing;
    const bool finite = std::isfinite(left) && std::isfinite(right);
    const double absolute = finite ? std::fabs(left - right) : std::numeric_limits<double>::infinity();
    const double larger = std::max(std::fabs(left), std::fabs(right));
    sum += absolute;
    found.max_absolute = std::max(found.max_absolute, absolute);
    found.max_relative = std::max(found.max_relative, finite && larger > 0 ? absolute / larger : absolute);
  }
  found.mean_absolute = found.elements == 0 ? 0 : sum / static_cast<double>(found.elements);
  return found;
}

}  // namespace

Statistics statistics_of(std::span<const std::byte> bytes, DType dtype) {
  return with_element_reader(dtype, [&](auto read) { return gather(bytes, dtype_size(dtype), read); });
}

Difference difference_of(std::span<const std::byte> a, std::span<const std::byte> b, DType dtype) {
  if (std::ranges::equal(a, b)) {
    return {.elements = a.size() / dtype_size(dtype)};
  }
  return with_element_reader(
      dtype, [&](auto read) { return compare(a, b, dtype_size(dtype), is_floating_point(dtype), read); });
}

}  // namespace rollcall::checkpoint_tool
