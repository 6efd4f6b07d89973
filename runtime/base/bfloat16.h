#pragma once

#include <bit>
#include <cstdint>

namespace rollcall {

// bfloat16 is the upper half of a float32. Both functions are branch-free and always inlined, so that the compiler
// vectorizes loops over them, even in functions that are compiled for another instruction set than their file.

/// Returns the nearest bfloat16, with ties to even, like PyTorch and AVX-512. Numbers that are too large become
/// infinity. Every NaN becomes the quiet NaN, because rounding its payload could yield infinity.
[[nodiscard, gnu::always_inline]] constexpr inline std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  return static_cast<std::uint16_t>(value == value ? rounded : 0x7fc0U);
}

[[nodiscard, gnu::always_inline]] constexpr inline float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

}  // namespace rollcall
