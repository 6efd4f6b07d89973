#include "trainer/distributed/fsdp/gather_whole.h"

#include <torch/torch.h>
#include <vector>

#include "trainer/distributed/fsdp/device_memory.h"

namespace rollcall::parallel::fsdp {

at::Tensor gather_whole(const process_group::Group& group, const at::Tensor& like, const RowShards& rows,
                        const at::Tensor& part) {
  const torch::NoGradGuard no_grad;
  const auto rank = static_cast<std::int64_t>(process_group::rank_of(group));
  at::Tensor mine = at::zeros({rows.padded_numel()}, part.options().requires_grad(false));
  shard_view(mine, like, rows, rank, 0).copy_(part.detach());
  std::vector<at::Tensor> parts{mine};
  if (group) {
    std::vector<std::vector<at::Tensor>> outputs;
    if (rank == 0) {
      parts.clear();
      for (int i = 0; i < group->getSize(); ++i) {
        parts.push_back(at::empty_like(mine));
      }
      outputs.push_back(parts);
    }
    std::vector<at::Tensor> inputs{mine};
    group->gather(outputs, inputs)->wait();
  }
  if (rank != 0) {
    return {};
  }
  at::Tensor whole = at::empty_strided(like.sizes(), like.strides(), mine.options());
  const auto element = static_cast<std::int64_t>(whole.element_size());
  for (std::size_t r = 0; r < parts.size(); ++r) {
    const auto from = static_cast<std::int64_t>(r);
    copy_pieces(whole, parts[r], {{rows.offset_of(from) * element, 0, rows.numel_of(from) * element}});
  }
  return whole;
}

}  // namespace rollcall::parallel::fsdp
