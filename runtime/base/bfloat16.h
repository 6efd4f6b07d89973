#pragma once

#include <bit>
#include <cstdint>

namespace rollcall {

// bfloat16 is the upper half of a float32. Both are branch-free and always inlined, so that loops over them become
// vectors, also in functions that are compiled for other instruction sets than their file.

/// The nearest bfloat16, halves to even: as PyTorch's conversion and AVX-512's. Too large a number becomes infinity,
/// and every NaN the quiet one: rounding could carry its payload away into infinity.
[[nodiscard, gnu::always_inline]] constexpr inline std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  return static_cast<std::uint16_t>(value == value ? rounded : 0x7fc0U);
}

[[nodiscard, gnu::always_inline]] constexpr inline float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

}  // namespace rollcall
