#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/distributed/fsdp/options.h"
#include "trainer/distributed/process_group/mesh_options.h"
#include "trainer/torch.h"

namespace rollcall::device {
struct Kernels;
}

namespace rollcall::parallel {

/// How DataParallel synchronises. The same on every rank.
struct DataParallelOptions {
  /// Look for parameters that the loss does not depend on, in each forward's graph; without it a step that leaves some
  /// out is an error in the next one. They keep their gradient where no rank used them.
  bool find_unused_parameters = false;
  /// Every step uses the same parameters in the same order: found out in the first one, unused ones included.
  bool static_graph = false;
  /// Type in which gradients travel (bfloat16 or half), divided by the number of ranks before they are added up.
  /// Nothing: their own.
  std::optional<c10::ScalarType> compression;
  /// The device's, which stay loaded: they compress in one pass, and round once. Null: LibTorch's operators do.
  const device::Kernels* kernels = nullptr;
  /// Give every rank rank 0's buffers (BatchNorm statistics) before each step. Off: each rank keeps its own until
  /// sync_buffers().
  bool broadcast_buffers = true;
  /// Give every rank rank 0's parameters and buffers at first. Off: they are the same already, or will be made so.
  bool broadcast_at_first = true;
  /// What gradient_order() of another replica of this model said; the same on all ranks. warm_up() is not needed then.
  /// Empty: not known.
  std::vector<std::int64_t> gradient_order{};
  /// PyTorch's own figures: the first bucket is small so that communication starts early.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  std::size_t bucket_bytes = std::size_t{25} << 20;
};

/// How ExactReplica adds up.
struct ExactOptions {
  std::int64_t virtual_ranks = 0;  ///< of all processes together; 0: none
  std::int64_t accumulation = 1;   ///< batches of one virtual rank in a step
  bool broadcast_at_first = true;  ///< see DataParallelOptions
};

/// How a model is trained by all ranks together.
struct ReplicaOptions {
  bool sharded = false;  ///< FSDP instead of DDP
  DataParallelOptions data_parallel;
  ExactOptions exact;  ///< with virtual ranks: instead of DataParallel
  process_group::MeshOptions degrees;
  fsdp::Options sharding;
};

}  // namespace rollcall::parallel
