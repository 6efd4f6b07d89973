#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <vector>

namespace rollcall::parallel::fsdp {

// Memory operations on dense tensors of any layout, by bytes from a tensor's first element on. In main memory they are
// memcpy and memset; on another device they are put on its current stream, many pieces in few kernels. Nothing is
// recorded by autograd.

struct Piece {
  std::int64_t to = 0;
  std::int64_t from = 0;
  std::int64_t bytes = 0;
};

/// Copies pieces of `from` into `to`, which is on the same device, may have another type and does not overlap it.
void copy_pieces(const at::Tensor& to, const at::Tensor& from, const std::vector<Piece>& pieces);

void set_zero(const at::Tensor& tensor, std::int64_t begin, std::int64_t bytes);

/// The elements of a dense tensor in the order in which they lie in memory: a view with one dimension.
[[nodiscard]] at::Tensor in_memory_order(const at::Tensor& tensor);

}  // namespace rollcall::parallel::fsdp
