#pragma once

#include <cstddef>
#include <cstdint>

namespace rollcall::process_group {

/// Element types of reductions.
enum class ElementType : std::uint8_t { Float32, Float64, Float16, BFloat16, Int32, Int64 };

/// Operators of reductions. The maximum with a NaN is NaN.
enum class Reduction : std::uint8_t { Sum, Max };

/// Computes target[i] = target[i] (op) source[i] for `count` elements; the areas do not overlap. Bitwise commutative,
/// so that two ranks that combine the same values in opposite order agree. Integers wrap around; Float16 and BFloat16
/// are computed in Float32 and rounded to nearest even.
using CombineFunction = void (*)(void* target, const void* source, std::size_t count);

[[nodiscard]] CombineFunction combine_function(ElementType type, Reduction reduction);

/// The function for a plan's Combine steps.
struct Combining {
  CombineFunction function = nullptr;
  std::size_t element_bytes = 1;
};

}  // namespace rollcall::process_group
