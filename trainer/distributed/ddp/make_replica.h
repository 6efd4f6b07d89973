#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/base/result.h"
#include "trainer/distributed/ddp/options.h"
#include "trainer/distributed/ddp/replica.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/distributed/process_group/factory.h"
#include "trainer/torch.h"

namespace rollcall::parallel {

/// Whom a replica talks to. Null in a world of one.
struct Peers {
  process_group::Group world;
  c10::intrusive_ptr<c10d::Store> store;
  process_group::ProcessGroupOptions groups = {};  ///< of the mesh's own groups
};

/// Makes `module` trainable by all ranks together; each gets rank 0's values. Collective. Errors: those of
/// DataParallel::create, ExactReplica::create, make_mesh and ShardedReplica::create.
[[nodiscard]] Result<std::unique_ptr<Replica>> make_replica(std::shared_ptr<torch::nn::Module> module,
                                                            const ReplicaOptions& options, const Peers& peers);

/// Makes all model::BatchNorm of `module` normalise, in training, with the batches of all ranks of `group` together;
/// see model::BatchNormImpl::share_statistics. Returns how many there are. A null `group` changes nothing. The module
/// holds the group from then on. Not collective itself.
std::size_t synchronise_batch_norms(torch::nn::Module& module, const process_group::Group& group);

/// Takes from `module`, whose replica is gone, what still belongs to the group: gradients, which lie in its buckets,
/// and the shared statistics. Parameters and buffers stay.
void leave_group(torch::nn::Module& module);

}  // namespace rollcall::parallel
