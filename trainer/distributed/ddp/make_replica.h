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

/// The group and store through which a replica communicates; both null in a world of one.
struct Peers {
  process_group::Group world;
  c10::intrusive_ptr<c10d::Store> store;
  process_group::ProcessGroupOptions groups = {};  ///< options for the mesh's own groups
};

/// Makes a replica that trains `module` on all ranks, starting from rank 0's values. Collective. Returns the errors of
/// DataParallel::create, ExactReplica::create, make_mesh and ShardedReplica::create.
[[nodiscard]] Result<std::unique_ptr<Replica>> make_replica(std::shared_ptr<torch::nn::Module> module,
                                                            const ReplicaOptions& options, const Peers& peers);

/// Turns all model::BatchNorm of `module` into synchronised batch norms over the ranks of `group`; see
/// model::BatchNormImpl::share_statistics. Returns their number. A null `group` changes nothing. The module keeps a
/// reference to the group. Not collective itself.
std::size_t synchronise_batch_norms(torch::nn::Module& module, const process_group::Group& group);

/// Removes from `module`, whose replica is destroyed, what still belongs to the group: gradients, which are views of
/// its buckets, and the shared statistics. Parameters and buffers stay.
void leave_group(torch::nn::Module& module);

}  // namespace rollcall::parallel
