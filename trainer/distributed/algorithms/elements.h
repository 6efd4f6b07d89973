#pragma once

#include <cstddef>
#include <cstdint>

namespace rollcall::process_group {

/// What a reduction adds up.
enum class ElementType : std::uint8_t { Float32, Float64, Float16, BFloat16, Int32, Int64 };

/// How two values become one. The maximum with a NaN is NaN.
enum class Reduction : std::uint8_t { Sum, Max };

/// target[i] = target[i] (op) source[i] for `count` elements; the areas do not overlap. Commutative bit for bit, so
/// that two ranks that combine the same values in turned order agree. Integers wrap around; Float16 and BFloat16
/// compute in Float32 and round to nearest even.
using CombineFunction = void (*)(void* target, const void* source, std::size_t count);

[[nodiscard]] CombineFunction combine_function(ElementType type, Reduction reduction);

/// How a plan's Combine steps are done.
struct Combining {
  CombineFunction function = nullptr;
  std::size_t element_bytes = 1;
};

}  // namespace rollcall::process_group
