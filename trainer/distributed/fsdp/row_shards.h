#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <vector>

namespace rollcall::parallel::fsdp {

/// How one tensor is cut along dimension 0: every rank gets `chunk` rows, the last ranks fewer or none. A tensor
/// without dimensions is one row. Pure arithmetic; counts are elements, not bytes.
struct RowShards {
  std::int64_t rows = 1;
  std::int64_t row_numel = 1;
  std::int64_t chunk = 1;  ///< rows a rank: ceil(rows / ranks)

  /// `whole` must be dense with dimension 0 outermost in memory, as contiguous and channels-last tensors are.
  RowShards(const at::Tensor& whole, std::int64_t ranks);

  [[nodiscard]] std::int64_t first_row(std::int64_t rank) const;
  [[nodiscard]] std::int64_t rows_of(std::int64_t rank) const;
  [[nodiscard]] std::int64_t offset_of(std::int64_t rank) const { return first_row(rank) * row_numel; }
  [[nodiscard]] std::int64_t numel_of(std::int64_t rank) const { return rows_of(rank) * row_numel; }
  /// The same on every rank, so that all ranks' shards take equally much room in a collective.
  [[nodiscard]] std::int64_t padded_numel() const { return chunk * row_numel; }
};

/// Whether RowShards can cut it: dense, dimension 0 outermost.
[[nodiscard]] bool rows_are_outermost(const at::Tensor& tensor);

/// Whether both have their elements in the same places. Strides of dimensions of size 1 mean nothing: gradients of 1x1
/// convolutions have others than their parameters.
[[nodiscard]] bool same_layout(const at::Tensor& a, const at::Tensor& b);

/// `rank`'s part of `whole` as a view of `flat` from element `offset` on: `whole`'s shape but for dimension 0, and its
/// strides.
[[nodiscard]] at::Tensor shard_view(const at::Tensor& flat, const at::Tensor& whole, const RowShards& shards,
                                    std::int64_t rank, std::int64_t offset);

}  // namespace rollcall::parallel::fsdp
