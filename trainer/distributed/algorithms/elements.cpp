#include "trainer/distributed/algorithms/elements.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <type_traits>

#include "runtime/base/bfloat16.h"

// The loop is compiled for several processor levels, and the loader selects one. Not with sanitizers, whose run time is
// not ready when the loader selects, and not with clang, which names the levels differently.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ROLLCALL_VECTOR_LEVELS \
  __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default"), optimize("O3")))
#else
#define ROLLCALL_VECTOR_LEVELS
#endif

namespace rollcall::process_group {
namespace {

// The two half-precision types as stored in memory, with branch-free conversions, so that loops over them are
// vectorised.

struct BFloat16 {
  std::uint16_t bits;

  [[nodiscard]] static float to_float(BFloat16 value) { return from_bfloat16(value.bits); }
  [[nodiscard]] static BFloat16 from_float(float value) { return BFloat16{to_bfloat16(value)}; }
};

// clang before 15 has the type on x86 only by its older name, and with -mf16c.
#if defined(__clang__) && __clang_major__ < 15
using Binary16 = __fp16;
#else
using Binary16 = _Float16;
#endif

/// IEEE 754 binary16, converted by the compiler (with F16C if the processor has it).
struct Float16 {
  Binary16 value;

  [[nodiscard]] static float to_float(Float16 half) { return static_cast<float>(half.value); }
  [[nodiscard]] static Float16 from_float(float value) { return Float16{static_cast<Binary16>(value)}; }
};

template <typename T>
concept Half = std::same_as<T, BFloat16> || std::same_as<T, Float16>;

struct Add {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      // Unsigned, because its overflow is defined.
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    } else {
      return a + b;
    }
  }
};

struct Maximum {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a == T{0} && b == T{0}) {
        return std::signbit(a) ? b : a;
      }
      return a != a || a > b ? a : b;
    } else {
      return std::max(a, b);
    }
  }
};

template <typename Operation, typename T>
ROLLCALL_VECTOR_LEVELS void combine(void* target_bytes, const void* source_bytes, std::size_t count) {
  auto* __restrict target = static_cast<T*>(target_bytes);
  const auto* __restrict source = static_cast<const T*>(source_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (Half<T>) {
      target[i] = T::from_float(Operation::apply(T::to_float(target[i]), T::to_float(source[i])));
    } else {
      target[i] = Operation::apply(target[i], source[i]);
    }
  }
}

template <typename T>
CombineFunction function_of(Reduction reduction) {
  return reduction == Reduction::Sum ? &combine<Add, T> : &combine<Maximum, T>;
}

}  // namespace

CombineFunction combine_function(ElementType type, Reduction reduction) {
  switch (type) {
    case ElementType::Float32:
      return function_of<float>(reduction);
    case ElementType::Float64:
      return function_of<double>(reduction);
    case ElementType::Float16:
      return function_of<Float16>(reduction);
    case ElementType::BFloat16:
      return function_of<BFloat16>(reduction);
    case ElementType::Int32:
      return function_of<std::int32_t>(reduction);
    case ElementType::Int64:
      break;
  }
  return function_of<std::int64_t>(reduction);
}

}  // namespace rollcall::process_group
