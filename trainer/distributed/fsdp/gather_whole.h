#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/distributed/fsdp/row_shards.h"
#include "trainer/distributed/process_group/collectives.h"

namespace rollcall::parallel::fsdp {

/// The tensor whose rows the ranks of `group` hold: on its rank 0, in `part`'s type and with the sizes and strides of
/// `like` (whose values are not read); undefined elsewhere. `part` is this rank's rows in any memory layout.
/// Collective; each shard travels once. Throws what c10d throws.
[[nodiscard]] at::Tensor gather_whole(const process_group::Group& group, const at::Tensor& like, const RowShards& rows,
                                      const at::Tensor& part);

}  // namespace rollcall::parallel::fsdp
