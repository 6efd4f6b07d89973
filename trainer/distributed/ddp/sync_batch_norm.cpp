#include "trainer/distributed/ddp/sync_batch_norm.h"

#include "trainer/model/batch_norm.h"

namespace rollcall::parallel {
namespace {

class SumOverRanks final : public model::StatisticsSum {
 public:
  explicit SumOverRanks(process_group::Group group) : group_(std::move(group)) {}

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
  const auto ranks = c10::make_intrusive<SumOverRanks>(group);
  for (const std::shared_ptr<torch::nn::Module>& child : module.modules()) {
    if (auto* const batch_norm = child->as<model::BatchNormImpl>()) {
      batch_norm->share_statistics(ranks);
      synchronised += 1;
    }
  }
  return synchronised;
}

}  // namespace rollcall::parallel
