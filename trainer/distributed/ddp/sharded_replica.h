#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/distributed/ddp/replica.h"
#include "trainer/distributed/fsdp/fully_shard.h"

namespace rollcall::parallel {

/// Fully sharded data parallelism (FSDP): see fsdp::ShardedModule.
class ShardedReplica final : public Replica {
 public:
  /// Checks that all ranks have the same model, broadcasts rank 0's parameters and buffers, then shards it. Collective
  /// over mesh.world. Returns the errors of verify_same_model() and fsdp::fully_shard().
  [[nodiscard]] static Result<std::unique_ptr<ShardedReplica>> create(std::shared_ptr<torch::nn::Module> module,
                                                                      const process_group::Mesh& mesh,
                                                                      const fsdp::Options& options);

  [[nodiscard]] torch::OrderedDict<std::string, at::Tensor> named_parameters() const override {
    return sharded_->named_parameters();
  }
  [[nodiscard]] at::ScalarType input_type() const override { return input_type_; }
  [[nodiscard]] at::Tensor forward(const Loss& loss) override { return sharded_->forward(loss); }
  [[nodiscard]] at::Tensor evaluate(const Loss& outputs) override;
  void set_gradient_sync(bool sync) override { sharded_->set_gradient_sync(sync); }
  void zero_grad() override { sharded_->zero_grad(); }
  at::Tensor clip_grad_norm(double max_norm) override;
  /// Does nothing: every step adds in the same order.
  [[nodiscard]] Result<void> warm_up(const Loss& /*loss*/) override { return {}; }
  [[nodiscard]] Result<void> sync_buffers() override;

  void add_over_shards(at::Tensor& sums) const override;
  [[nodiscard]] bool is_sharded() const override { return true; }
  [[nodiscard]] at::Tensor shard(const std::string& name) const override { return sharded_->shard(name); }
  [[nodiscard]] std::int64_t first_row(const std::string& name) const override { return sharded_->first_row(name); }
  [[nodiscard]] bool is_first_of_replicas() const override {
    return process_group::rank_of(sharded_->mesh().replicate) == 0;
  }
  [[nodiscard]] at::Tensor gather(const std::string& name, const at::Tensor& part) const override {
    return sharded_->gather(name, part);
  }
  [[nodiscard]] at::Tensor part_of(const std::string& name, const at::Tensor& whole) const override {
    return sharded_->part_of(name, whole);
  }

  [[nodiscard]] fsdp::ShardedModule& sharded() { return *sharded_; }

 private:
  ShardedReplica(std::shared_ptr<torch::nn::Module> module, std::unique_ptr<fsdp::ShardedModule> sharded,
                 at::ScalarType input_type);

  std::shared_ptr<torch::nn::Module> module_;
  std::unique_ptr<fsdp::ShardedModule> sharded_;
  std::vector<at::Tensor> parameters_;  ///< the shards
  at::ScalarType input_type_;
};

}  // namespace rollcall::parallel
