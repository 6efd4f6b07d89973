#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "trainer/torch.h"

namespace rollcall::parallel::fsdp {

/// State of a block's parameters between its forward and its backward (FSDP2's reshard_after_forward).
enum class AfterForward {
  Keep,       ///< they stay unsharded: most memory, one all-gather a step
  Shard,      ///< they are sharded again: least memory, two all-gathers a step
  SmallShard  ///< they are sharded over the few ranks of Mesh::reshard, which alone make the second all-gather
};

struct Options {
  AfterForward after_forward = AfterForward::Shard;
  /// Type in which parameters are gathered and computed with; the shards that the optimizer updates keep theirs. Batch
  /// norms always compute in their own. Unset: the parameters' type.
  std::optional<at::ScalarType> parameter_type = std::nullopt;
  /// Type in which gradients are sent; they are added up in the shards' type. Unset: the shards' type.
  std::optional<at::ScalarType> reduce_type = std::nullopt;
  /// Whether after set_gradient_sync(false) whole gradients add up on each rank, without traffic. Off: they are reduced
  /// into the shards in each backward, which needs only the memory of the shards.
  bool accumulate_whole = true;
  /// Whether shards, their gradients and so the optimizer's state are in main memory, wherever the model computes
  /// (PyTorch's CPUOffloadPolicy): a shard is copied to the device for each all-gather, its reduced gradient back.
  bool cpu_offload = false;
  /// Parameters of which every rank has the same number of bytes, at least this many, are gathered and reduced in
  /// place, in messages of their own. A block's other parameters share a buffer and a message.
  std::int64_t alone_from_bytes = std::int64_t{512} << 10;
  bool prefetch = true;  ///< whether the next parameters are gathered while a block computes: see Schedule
  /// Number of pending reductions from which on the oldest is waited for (on a device: before the memory of its
  /// gradients is reused); at least 1.
  std::size_t reductions_in_flight = 2;
  /// Called on this rank right before and after each collective is issued; for tests that delay them. May be empty.
  std::function<void()> around_collective = nullptr;
};

/// Counters of a ShardedModule since its construction or reset_counters().
struct Counters {
  std::int64_t gathers = 0;           ///< all-gathers of parameters
  std::int64_t reductions = 0;        ///< reduce-scatters of gradients
  std::int64_t gathered_bytes = 0;    ///< received by this rank in all-gathers
  std::int64_t scattered_bytes = 0;   ///< sent by this rank in reduce-scatters
  std::int64_t replicated_bytes = 0;  ///< bytes of gradient shards that were all-reduced over replicas
  std::int64_t uploaded_bytes = 0;    ///< bytes of shards copied to the device (Options::cpu_offload)
  std::int64_t downloaded_bytes = 0;  ///< bytes of gradient shards copied back (Options::cpu_offload)
  std::int64_t unsharded_bytes = 0;   ///< bytes held now besides shards: unsharded parameters, all-gathers' results
  std::int64_t peak_unsharded_bytes = 0;
  /// Seconds that the host waited for collectives that computation did not hide. 0 on a device, where streams wait.
  double waited_seconds = 0;
};

}  // namespace rollcall::parallel::fsdp
