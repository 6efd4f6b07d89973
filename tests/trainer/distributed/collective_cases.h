#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "tests/support/multiproc.h"

/// Values for collectives and the results of a scalar loop. All are small integers, exact in every type, so that every
/// order of additions gives the same result.
namespace rollcall::testing_support {

using c10d::ReduceOp;

/// What a tensor looks like to a collective.
struct Shape {
  at::ScalarType type = at::kFloat;
  std::int64_t count = 1;
};

inline std::string text(const Shape& shape) {
  return std::string(c10::toString(shape.type)) + " x " + std::to_string(shape.count);
}

inline double value_at(std::uint32_t rank, std::int64_t i) {
  return static_cast<double>((static_cast<std::int64_t>(rank) * 5 + i * 3) % 7 % 3);
}

inline at::Tensor tensor_of(const Shape& shape, const std::function<double(std::int64_t)>& value) {
  std::vector<double> values(static_cast<std::size_t>(shape.count));
  for (std::int64_t i = 0; i < shape.count; ++i) {
    values[static_cast<std::size_t>(i)] = value(i);
  }
  return torch::tensor(values, at::kDouble).to(shape.type);
}

inline at::Tensor tensor_of_rank(const Shape& shape, std::uint32_t rank) {
  return tensor_of(shape, [rank](std::int64_t i) { return value_at(rank, i); });
}

/// Element i of the reduction over all ranks.
inline double reduced_at(ReduceOp::RedOpType operation, std::uint32_t world_size, std::int64_t i) {
  double all = value_at(0, i);
  for (std::uint32_t rank = 1; rank < world_size; ++rank) {
    all = operation == ReduceOp::SUM ? all + value_at(rank, i) : std::max(all, value_at(rank, i));
  }
  return all;
}

inline at::Tensor reduced(ReduceOp::RedOpType operation, const Shape& shape, std::uint32_t world_size,
                          std::int64_t first = 0) {
  return tensor_of({shape.type, shape.count},
                   [&](std::int64_t i) { return reduced_at(operation, world_size, first + i); });
}

}  // namespace rollcall::testing_support
