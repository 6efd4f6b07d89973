#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "trainer/checkpoint/format/content.h"

namespace rollcall::checkpoint_tool {

/// IEEE 754 binary16 and bfloat16 to float, exactly; and back, to the nearest, ties to even, too large ones to
/// infinity.
[[nodiscard]] float float_of_half(std::uint16_t half);
[[nodiscard]] float float_of_bfloat16(std::uint16_t bits);
[[nodiscard]] std::uint16_t half_of_float(float number);
[[nodiscard]] std::uint16_t bfloat16_of_float(float number);

template <typename Number>
[[nodiscard]] Number element_at(const std::byte* bytes) {
  Number number{};
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

/// Calls visit(read) where read(const std::byte*) gives an element of that type as a double. int64 beyond 2^53 are
/// rounded.
template <typename Visit>
auto with_element_reader(checkpoint::format::DType dtype, Visit visit) {
  using checkpoint::format::DType;
  switch (dtype) {
    case DType::Float16:
      return visit([](const std::byte* at) { return double{float_of_half(element_at<std::uint16_t>(at))}; });
    case DType::BFloat16:
      return visit([](const std::byte* at) { return double{float_of_bfloat16(element_at<std::uint16_t>(at))}; });
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

/// Writes `numbers` as elements of a floating-point type, rounded to the nearest. `out` has room for exactly these.
void write_elements(std::span<const double> numbers, checkpoint::format::DType dtype, std::span<std::byte> out);

}  // namespace rollcall::checkpoint_tool
