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

/// A collective of `kind` that only moves bytes, `bytes` of each rank.
[[nodiscard]] Collective copying(CollectiveKind kind, std::size_t bytes, std::int64_t root = 0);

/// An all-to-all of parts that may differ, as large as these tensors; by rank.
[[nodiscard]] Collective exchanging(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs);

/// The all-to-all of `input` and `output`, which are divided into `rows` of each rank, or where there are none equally:
/// a caller that gives none says that nobody's parts differ.
[[nodiscard]] Collective exchanging(const at::Tensor& input, const std::vector<std::int64_t>& input_rows,
                                    const at::Tensor& output, const std::vector<std::int64_t>& output_rows,
                                    int world_size);

/// Memory for as many `part`s as there are ranks.
[[nodiscard]] at::Tensor room_for(const at::Tensor& part, int world_size);

/// Throws unless `list` has a tensor for each rank, of the size and type of `part`.
void check_list(const std::vector<at::Tensor>& list, const at::Tensor& part, int world_size);

/// Throws unless `whole` is as large as `world_size` tensors like `part`, and of its type.
void check_whole(const at::Tensor& whole, const at::Tensor& part, int world_size);

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
