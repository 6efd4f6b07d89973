#include "trainer/distributed/ddp/make_replica.h"

#include <utility>

#include "trainer/distributed/ddp/data_parallel.h"
#include "trainer/distributed/ddp/exact_replica.h"
#include "trainer/distributed/ddp/sharded_replica.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/distributed/process_group/mesh.h"
#include "trainer/libtorch_version.h"
#include "trainer/model/batch_norm.h"

namespace rollcall::parallel {
namespace {

template <typename T>
Result<std::unique_ptr<Replica>> as_replica(Result<std::unique_ptr<T>> made) {
  ASSIGN_OR_RETURN(std::unique_ptr<T> replica, std::move(made));
  return std::unique_ptr<Replica>(std::move(replica));
}

Result<std::unique_ptr<Replica>> make_sharded(std::shared_ptr<torch::nn::Module> module, const ReplicaOptions& options,
                                              const Peers& peers) {
  const Result<process_group::Mesh> mesh =
      process_group::make_mesh(peers.world, peers.store, options.degrees, peers.groups);
  const Result<void> outcome = mesh ? Result<void>() : Result<void>(mesh.error());
  RETURN_IF_ERROR(process_group::agree_or_fail(peers.world, outcome));
  return as_replica(ShardedReplica::create(std::move(module), *mesh, options.sharding));
}

}  // namespace

Result<std::unique_ptr<Replica>> make_replica(std::shared_ptr<torch::nn::Module> module, const ReplicaOptions& options,
                                              const Peers& peers) {
  if (options.exact.virtual_ranks > 0) {
    return as_replica(ExactReplica::create(std::move(module), peers.world, options.exact));
  }
  if (!options.sharded) {
    return as_replica(DataParallel::create(std::move(module), peers.world, options.data_parallel));
  }
  return make_sharded(std::move(module), options, peers);
}

namespace {

class Ranks final : public model::StatisticsRanks {
 public:
  explicit Ranks(process_group::Group group) : group_(std::move(group)) {}

  at::Tensor gather(const at::Tensor& mine) override {
    at::Tensor all = at::empty({group_->getSize() * mine.numel()}, mine.options());
    at::Tensor own = mine;
    group_->all_gather_single(all, own)->wait();
    return all.view({group_->getSize(), mine.numel()});
  }
  void add_up(at::Tensor& sums) override {
    std::vector<at::Tensor> tensors{sums};
    group_->allreduce(tensors)->wait();
  }

 private:
  process_group::Group group_;
};

}  // namespace

std::size_t synchronise_batch_norms(torch::nn::Module& module, const process_group::Group& group) {
  std::size_t synchronised = 0;
  if (!group) {
    return synchronised;
  }
  const auto ranks = c10::make_intrusive<Ranks>(group);
  for (const std::shared_ptr<torch::nn::Module>& child : module.modules()) {
    if (auto* const batch_norm = child->as<model::BatchNormImpl>()) {
      batch_norm->share_statistics(ranks);
      synchronised += 1;
    }
  }
  return synchronised;
}

void leave_group(torch::nn::Module& module) {
  for (at::Tensor& parameter : module.parameters()) {
    parameter.mutable_grad().reset();
  }
  for (const std::shared_ptr<torch::nn::Module>& child : module.modules()) {
    if (auto* const batch_norm = child->as<model::BatchNormImpl>()) {
      batch_norm->share_statistics({});
    }
  }
}

}  // namespace rollcall::parallel
