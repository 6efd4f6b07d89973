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

/// Options of DataParallel; the same on every rank.
struct DataParallelOptions {
  /// Searches each forward's graph for parameters that the loss does not depend on; if off, a step that does not use
  /// all of them is an error in the next step. Parameters that no rank used keep their gradient.
  bool find_unused_parameters = false;
  /// Whether every step uses the same parameters in the same order; the first step finds out which, and which not.
  bool static_graph = false;
  /// Type in which gradients are sent (bfloat16 or half), divided by the number of ranks before they are added up.
  /// Unset: their own type.
  std::optional<c10::ScalarType> compression;
  /// The device's kernels, which stay loaded, for compression in one pass with one rounding. Null: LibTorch's
  /// operators.
  const device::Kernels* kernels = nullptr;
  /// Whether rank 0's buffers (BatchNorm statistics) are broadcast before each step. Off: each rank keeps its own until
  /// sync_buffers().
  bool broadcast_buffers = true;
  /// Whether rank 0's parameters and buffers are broadcast at first. Off: the caller makes them the same.
  bool broadcast_at_first = true;
  /// The gradient_order() of another replica of this model, the same on all ranks; makes warm_up() unnecessary. Empty
  /// if it is not known.
  std::vector<std::int64_t> gradient_order{};
  /// PyTorch's defaults: the first bucket is small so that communication starts early.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  std::size_t bucket_bytes = std::size_t{25} << 20;
};

/// Options of ExactReplica.
struct ExactOptions {
  std::int64_t virtual_ranks = 0;  ///< number of virtual ranks of all processes together; 0: ExactReplica is not used
  std::int64_t accumulation = 1;   ///< batches of one virtual rank in a step
  bool broadcast_at_first = true;  ///< see DataParallelOptions
};

/// Options of make_replica().
struct ReplicaOptions {
  bool sharded = false;  ///< whether FSDP is used instead of DDP
  DataParallelOptions data_parallel;
  ExactOptions exact;  ///< replaces DataParallel if it has virtual ranks
  process_group::MeshOptions degrees;
  fsdp::Options sharding;
};

}  // namespace rollcall::parallel
