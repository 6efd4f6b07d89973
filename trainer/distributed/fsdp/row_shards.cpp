#include "trainer/distributed/fsdp/row_shards.h"

#include <torch/torch.h>
#include <algorithm>

namespace rollcall::parallel::fsdp {

RowShards::RowShards(const at::Tensor& whole, std::int64_t ranks)
    : rows(whole.dim() > 0 ? whole.size(0) : 1),
      row_numel(rows > 0 ? whole.numel() / rows : 0),
      chunk((rows + ranks - 1) / ranks) {}

std::int64_t RowShards::first_row(std::int64_t rank) const { return std::min(rank * chunk, rows); }

std::int64_t RowShards::rows_of(std::int64_t rank) const {
  return std::clamp<std::int64_t>(rows - rank * chunk, 0, chunk);
}

bool rows_are_outermost(const at::Tensor& tensor) {
  if (!tensor.is_non_overlapping_and_dense()) {
    return false;
  }
  return tensor.dim() == 0 || tensor.size(0) <= 1 || tensor.stride(0) == tensor.numel() / tensor.size(0);
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) {
      return false;
    }
  }
  return true;
}

at::Tensor shard_view(const at::Tensor& flat, const at::Tensor& whole, const RowShards& shards, std::int64_t rank,
                      std::int64_t offset) {
  const torch::NoGradGuard no_grad;
  if (whole.dim() == 0) {  // one element has no dimension to be empty in
    return flat.narrow(0, offset, shards.rows_of(rank));
  }
  std::vector<std::int64_t> sizes = whole.sizes().vec();
  sizes[0] = shards.rows_of(rank);
  return flat.as_strided(sizes, whole.strides(), flat.storage_offset() + offset);
}

}  // namespace rollcall::parallel::fsdp
