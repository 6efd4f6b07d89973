#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "runtime/base/bfloat16.h"
#include "trainer/checkpoint/format/content.h"

namespace rollcall::checkpoint_tool {

/// Convert between float and IEEE 754 binary16 or bfloat16. To float exactly; from float to the nearest, ties to even,
/// and too large numbers to infinity. A NaN that becomes a bfloat16 keeps its payload.
[[nodiscard]] float half_to_float(std::uint16_t half);
[[nodiscard]] std::uint16_t float_to_half(float number);
[[nodiscard]] std::uint16_t float_to_bfloat16(float number);

template <typename Number>
[[nodiscard]] Number element_at(const std::byte* bytes) {
  Number number{};
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

/// Calls visit(read), where read(const std::byte*) returns an element of the type as a double. int64 beyond 2^53 are
/// rounded.
template <typename Visit>
auto with_element_reader(checkpoint::format::DType dtype, Visit visit) {
  using checkpoint::format::DType;
  switch (dtype) {
    case DType::Float16:
      return visit([](const std::byte* at) { return double{half_to_float(element_at<std::uint16_t>(at))}; });
    case DType::BFloat16:
      return visit([](const std::byte* at) { return double{from_bfloat16(element_at<std::uint16_t>(at))}; });
    case DType::Float32:
      return visit([](const std::byte* at) { return double{element_at<float>(at)}; });
    case DType::Float64:
      return visit([](const std::byte* at) { return element_at<double>(at); });
    case DType::Int8:
      return visit([](const std::byte* at) { return static_cast<double>(element_at<std::int8_t>(at)); });
    case DType::Int16:
      return visit([](const std::byte* at) { return static_cast<double>(element_at<std::int16_t>(at)); });
    case DType::Int32:
      return visit([](const std::byte* at) { return static_cast<double>(element_at<std::int32_t>(at)); });
    case DType::Int64:
      return visit([](const std::byte* at) { return static_cast<double>(element_at<std::int64_t>(at)); });
    case DType::Bool:
    case DType::UInt8:
      break;
  }
  return visit([](const std::byte* at) { return static_cast<double>(element_at<std::uint8_t>(at)); });
}

[[nodiscard]] bool is_floating_point(checkpoint::format::DType dtype);

/// Writes `numbers` as elements of a floating-point type, rounded to the nearest. `out` has exactly their size.
void write_elements(std::span<const double> numbers, checkpoint::format::DType dtype, std::span<std::byte> out);

/// Statistics of a tensor. Minimum to standard deviation (of the population) are over the finite elements; 0 if there
/// are none.
struct Statistics {
  std::uint64_t elements = 0;
  std::uint64_t nan = 0;
  std::uint64_t infinite = 0;
  std::uint64_t zeros = 0;
  double minimum = 0;
  double maximum = 0;
  double mean = 0;
  double stddev = 0;
};

/// Computes the statistics of a tensor. Pure.
[[nodiscard]] Statistics statistics_of(std::span<const std::byte> bytes, checkpoint::format::DType dtype);

/// The difference of two tensors of equal type and shape. Two NaN count as equal, and so do 0 and -0.
struct Difference {
  std::uint64_t elements = 0;
  std::uint64_t differing = 0;
  double max_absolute = 0;   ///< maximum of |a - b|; infinite if one of both is not finite
  double max_relative = 0;   ///< maximum of |a - b| / max(|a|, |b|), at most 2; infinite as above
  double mean_absolute = 0;  ///< mean of |a - b| over all elements
};

/// Compares two tensors; `a` and `b` have equal size. Pure.
[[nodiscard]] Difference difference_of(std::span<const std::byte> a, std::span<const std::byte> b,
                                       checkpoint::format::DType dtype);

}  // namespace rollcall::checkpoint_tool
