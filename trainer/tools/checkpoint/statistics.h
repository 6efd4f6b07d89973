#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trainer/checkpoint/format/content.h"

namespace rollcall::checkpoint_tool {

/// What is in a tensor. Minimum to standard deviation (of the population) are over the finite elements, 0 where there
/// are none.
struct Statistics {
  std::uint64_t elements = 0;
  std::uint64_t nan = 0;
  std::uint64_t infinite = 0;
  std::uint64_t zeros = 0;
  double minimum = 0;
  double maximum = 0;
  double mean = 0;
  double deviation = 0;
};

/// Pure.
[[nodiscard]] Statistics statistics_of(std::span<const std::byte> bytes, checkpoint::format::DType dtype);

/// How far two tensors of equal type and shape are from each other. Two NaN count as equal, and so do 0 and -0.
struct Difference {
  std::uint64_t elements = 0;
  std::uint64_t differing = 0;
  double max_absolute = 0;   ///< of |a - b|; infinite where one of both is not finite
  double max_relative = 0;   ///< of |a - b| / max(|a|, |b|), at most 2; infinite as above
  double mean_absolute = 0;  ///< over all elements
};

/// `a` and `b` are of equal size. Pure.
[[nodiscard]] Difference difference_of(std::span<const std::byte> a, std::span<const std::byte> b,
                                       checkpoint::format::DType dtype);

}  // namespace rollcall::checkpoint_tool
