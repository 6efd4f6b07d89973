#include "trainer/distributed/ddp/sharded_replica.h"

#include <utility>

namespace rollcall::parallel {
namespace {

Result<void> make_equal(const torch::nn::Module& module, const process_group::Group& world) {
  if (!world) {
    return {};
  }
  RETURN_IF_ERROR(verify_same_model(module, world));
  return process_group::guard_collective(world, [&] {
    std::vector<at::Tensor> state = module.parameters();
    const std::vector<at::Tensor> buffers = module.buffers();
    state.insert(state.end(), buffers.begin(), buffers.end());
    broadcast_values(state, world);
  });
}

}  // namespace

ShardedReplica::ShardedReplica(std::shared_ptr<torch::nn::Module> module, std::unique_ptr<fsdp::ShardedModule> sharded,
                               at::ScalarType input_type)
    : module_(std::move(module)),
      sharded_(std::move(sharded)),
      parameters_(sharded_->named_parameters().values()),
      input_type_(input_type) {}

Result<std::unique_ptr<ShardedReplica>> ShardedReplica::create(std::shared_ptr<torch::nn::Module> module,
                                                               const process_group::Mesh& mesh,
                                                               const fsdp::Options& options) {
  RETURN_IF_ERROR(make_equal(*module, mesh.world));
  ASSIGN_OR_RETURN(auto sharded, fsdp::fully_shard(module, mesh, options));
  return std::unique_ptr<ShardedReplica>(
      new ShardedReplica(std::move(module), std::move(sharded), options.parameter_type.value_or(at::kFloat)));
}

at::Tensor ShardedReplica::evaluate(const Loss& outputs) {
  const torch::NoGradGuard no_grad;
  return sharded_->forward(outputs);
}

at::Tensor ShardedReplica::clip_grad_norm(double max_norm) {
  return parallel::clip_grad_norm(parameters_, max_norm, sharded_->mesh().shard);
}

void ShardedReplica::add_over_shards(at::Tensor& sums) const {
  if (const process_group::Group& shards = sharded_->mesh().shard) {
    std::vector<at::Tensor> tensors{sums};
    shards->allreduce(tensors)->wait();
  }
}

Result<void> ShardedReplica::sync_buffers() {
  const process_group::Group& world = sharded_->mesh().world;
  if (!world) {
    return {};
  }
  return process_group::guard_collective(world, [&] { broadcast_values(module_->buffers(), world); });
}

}  // namespace rollcall::parallel
