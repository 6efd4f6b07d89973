#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "trainer/torch.h"

namespace rollcall::parallel::fsdp {

/// What a block's parameters become between its forward and its backward.
enum class AfterForward {
  Keep,       ///< stay unsharded: most memory, one all-gather a step
  Shard,      ///< shards again: least memory, two all-gathers a step
  SmallShard  ///< shards over Mesh::reshard, a few ranks near by, which alone take part in the second all-gather
};

struct Options {
  AfterForward after_forward = AfterForward::Shard;
  /// Type in which parameters are gathered and computed with; the shards that the optimizer updates keep theirs. Batch
  /// norms always compute in their own. Nothing: the parameters' type.
  std::optional<at::ScalarType> parameter_type = std::nullopt;
  /// Type in which gradients travel; they are added up in the shards' type. Nothing: the shards' type.
  std::optional<at::ScalarType> reduce_type = std::nullopt;
  /// What set_gradient_sync(false) does: gradients add up whole on each rank, without traffic; or they are reduced into
  /// the shards all the same, with the memory of the shards alone.
  bool accumulate_whole = true;
  /// Shards, their gradients and so the optimizer's state live in main memory, wherever the model computes (PyTorch's
  /// CPUOffloadPolicy): a shard is copied to the device for each all-gather, its reduced gradient back.
  bool cpu_offload = false;
  /// Parameters of which a rank has at least so many bytes, and all ranks equally many, are gathered and reduced by
  /// themselves, from and into their place; those of a block that are shorter or uneven together, through a buffer.
  std::int64_t alone_from_bytes = std::int64_t{512} << 10;
  bool prefetch = true;  ///< gather what comes next while a block computes: see Schedule
  /// Reductions that may be under way before the oldest is waited for (on a device: before the memory of its gradients
  /// may be used again); at least 1.
  std::size_t reductions_in_flight = 2;
  /// Called on this rank right before and after each collective is issued; for tests that delay them. May be empty.
  std::function<void()> around_collective = nullptr;
};

/// Counted since the beginning, or since they were set back by their owner.
struct Counters {
  std::int64_t gathers = 0;           ///< all-gathers of parameters
  std::int64_t reductions = 0;        ///< reduce-scatters of gradients
  std::int64_t gathered_bytes = 0;    ///< received by this rank in all-gathers
  std::int64_t scattered_bytes = 0;   ///< sent by this rank in reduce-scatters
  std::int64_t replicated_bytes = 0;  ///< of gradient shards that were all-reduced over replicas
  std::int64_t uploaded_bytes = 0;    ///< with Options::cpu_offload: of shards copied to where the model computes
  std::int64_t downloaded_bytes = 0;  ///< with Options::cpu_offload: of gradients' shards copied back
  std::int64_t unsharded_bytes = 0;   ///< now held beyond the shards: unsharded parameters and all-gathers' results
  std::int64_t peak_unsharded_bytes = 0;
  /// Of the host, for collectives that computation did not hide. On a device it is streams that wait, and nothing here
  /// says how long.
  double waited_seconds = 0;
};

}  // namespace rollcall::parallel::fsdp
