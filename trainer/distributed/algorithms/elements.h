#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace rollcall::process_group {

/// What a reduction adds up. Bool is one byte, 0 or 1.
enum class ElementType : std::uint8_t { Float32, Float64, Float16, BFloat16, Int8, UInt8, Int16, Int32, Int64, Bool };

/// How two values become one. Of bools, Sum and Max are "or", Product and Min "and". Min and Max of a NaN are NaN.
enum class Reduction : std::uint8_t { Sum, Product, Min, Max, BitAnd, BitOr, BitXor };

/// target[i] = target[i] (op) source[i] for `count` elements; the areas do not overlap. Commutative bit for bit, so
/// that two ranks that combine the same values in turned order agree. Integers wrap around; Float16 and BFloat16
/// compute in Float32 and round to nearest even.
using CombineFunction = void (*)(void* target, const void* source, std::size_t count);

/// Nothing for a bitwise reduction of floating-point numbers.
[[nodiscard]] std::optional<CombineFunction> combine_function(ElementType type, Reduction reduction);

/// How a plan's Combine steps are done.
struct Combining {
  CombineFunction function = nullptr;
  std::size_t element_bytes = 1;
};

}  // namespace rollcall::process_group
