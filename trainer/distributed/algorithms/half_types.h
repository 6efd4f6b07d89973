#pragma once

#include <bit>
#include <cstdint>

namespace rollcall::process_group {

/// The two half-precision types as they lie in memory, with their conversions: branch-free, so that loops over them are
/// vectorised.

struct BFloat16 {
  std::uint16_t bits;

  [[nodiscard]] static float to_float(BFloat16 value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
  }
  [[nodiscard]] static BFloat16 from_float(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    // Rounding could carry a NaN's payload away into infinity: it becomes the quiet NaN.
    return BFloat16{static_cast<std::uint16_t>(value == value ? rounded : 0x7fc0U)};
  }
};

/// IEEE 754 binary16, converted by the compiler (F16C where the processor has it).
struct Float16 {
  _Float16 value;

  [[nodiscard]] static float to_float(Float16 half) { return static_cast<float>(half.value); }
  [[nodiscard]] static Float16 from_float(float value) { return Float16{static_cast<_Float16>(value)}; }
};

}  // namespace rollcall::process_group
