#pragma once

#include <torch/types.h>
#include <cstddef>
#include <optional>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "trainer/distributed/algorithms/collective.h"

namespace rollcall::process_group {

// Between tensors and the bytes that the engine moves. All of it throws c10::Error for what cannot be done.

/// The memory of a contiguous tensor.
[[nodiscard]] std::byte* bytes_of(const at::Tensor& tensor);

/// Throws unless `tensor` is dense and on the CPU.
void check_tensor(const at::Tensor& tensor);

/// The only one of `tensors`, checked.
[[nodiscard]] const at::Tensor& only(const std::vector<at::Tensor>& tensors);

/// A reduction of `kind` of parts as large as `part`. Throws where there is none of such elements.
[[nodiscard]] Collective reducing(CollectiveKind kind, const at::Tensor& part, const c10d::ReduceOp& operation);

/// What is reduced in place of `tensor`: complex numbers as pairs where the reduction allows it.
[[nodiscard]] at::Tensor reducible(const at::Tensor& tensor, const c10d::ReduceOp& operation);

/// Makes a sum the average, where that was asked for.
void finish_average(const at::Tensor& sum, const c10d::ReduceOp& operation, int world_size);

/// `tensor` itself where it is contiguous, else memory that write_back() later copies to it.
struct Staged {
  explicit Staged(const at::Tensor& target, bool with_values);
  void write_back() const;

  at::Tensor target;
  at::Tensor memory;  ///< contiguous
};

/// The elements of all tensors, one after the other.
[[nodiscard]] at::Tensor packed(const std::vector<at::Tensor>& tensors);
/// The other way round: `flat`'s elements into `tensors`.
void unpack(const at::Tensor& flat, const std::vector<at::Tensor>& tensors);

}  // namespace rollcall::process_group
