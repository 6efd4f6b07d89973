#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "tests/support/multiproc.h"

/// Values for collectives and what a scalar loop makes of them. All are small whole numbers, so that every type holds
/// them and every order of additions gives the same.
namespace rollcall::testing_support {

using c10d::ReduceOp;

/// What a tensor looks like to a collective.
struct Shape {
  at::ScalarType type = at::kFloat;
  std::int64_t count = 1;
  bool strided = false;  ///< every second element of its memory
};

inline std::string text(const Shape& shape) {
  return std::string(c10::toString(shape.type)) + " x " + std::to_string(shape.count) +
         (shape.strided ? ", strided" : "");
}

inline double value_at(std::uint32_t rank, std::int64_t i) {
  return static_cast<double>((static_cast<std::int64_t>(rank) * 5 + i * 3) % 7 % 3);
}

inline at::Tensor tensor_of(const Shape& shape, const std::function<double(std::int64_t)>& value) {
  std::vector<double> values(static_cast<std::size_t>(shape.count));
  for (std::int64_t i = 0; i < shape.count; ++i) {
    values[static_cast<std::size_t>(i)] = value(i);
  }
  const at::Tensor plain = torch::tensor(values, at::kDouble).to(shape.type);
  if (!shape.strided) {
    return plain;
  }
  const at::Tensor wide = torch::zeros({shape.count, 2}, shape.type);
  const at::Tensor view = wide.select(1, 0);
  view.copy_(plain);
  return view;
}

inline at::Tensor tensor_of_rank(const Shape& shape, std::uint32_t rank) {
  return tensor_of(shape, [rank](std::int64_t i) { return value_at(rank, i); });
}

inline double combine(ReduceOp::RedOpType operation, double a, double b) {
  const auto x = static_cast<std::int64_t>(a);
  const auto y = static_cast<std::int64_t>(b);
  switch (operation) {
    case ReduceOp::PRODUCT:
      return a * b;
    case ReduceOp::MIN:
      return std::min(a, b);
    case ReduceOp::MAX:
      return std::max(a, b);
    case ReduceOp::BAND:
      return static_cast<double>(x & y);
    case ReduceOp::BOR:
      return static_cast<double>(x | y);
    case ReduceOp::BXOR:
      return static_cast<double>(x ^ y);
    default:
      return a + b;
  }
}

/// Element i of the reduction over all ranks. Bools add to "or".
inline double reduced_at(ReduceOp::RedOpType operation, at::ScalarType type, std::uint32_t world_size, std::int64_t i) {
  const auto value = [&](std::uint32_t rank) {
    return type == at::kBool ? static_cast<double>(value_at(rank, i) != 0) : value_at(rank, i);
  };
  double all = value(0);
  for (std::uint32_t rank = 1; rank < world_size; ++rank) {
    all = combine(operation, all, value(rank));
  }
  return operation == ReduceOp::AVG ? all / world_size : all;
}

inline at::Tensor reduced(ReduceOp::RedOpType operation, const Shape& shape, std::uint32_t world_size,
                          std::int64_t first = 0) {
  return tensor_of({shape.type, shape.count},
                   [&](std::int64_t i) { return reduced_at(operation, shape.type, world_size, first + i); });
}

/// The reductions that exist for a type.
inline std::vector<ReduceOp::RedOpType> reductions_of(at::ScalarType type) {
  if (at::isFloatingType(type)) {
    return {ReduceOp::SUM, ReduceOp::PRODUCT, ReduceOp::MIN, ReduceOp::MAX, ReduceOp::AVG};
  }
  return {ReduceOp::SUM,  ReduceOp::PRODUCT, ReduceOp::MIN, ReduceOp::MAX,
          ReduceOp::BAND, ReduceOp::BOR,     ReduceOp::BXOR};
}

}  // namespace rollcall::testing_support
