#pragma once

#include <bit>
#include <cstdint>

namespace rollcall::data {

/// The bits of the bfloat16 nearest to a finite value, halves to even: as PyTorch's conversion and AVX-512's.
[[nodiscard]] constexpr std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace rollcall::data
