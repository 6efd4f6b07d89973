#include "trainer/parallel/data_parallel.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>

#include "trainer/parallel/gradient_norm.h"
#include "trainer/parallel/same_model.h"

namespace rollcall::parallel {
namespace {

// PyTorch's own figures: the first bucket is small so that communication starts early.
constexpr std::size_t kFirstBucketBytes = std::size_t{1} << 20;
constexpr std::size_t kBucketBytes = std::size_t{25} << 20;

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> cloned;
  std::transform(tensors.begin(), tensors.end(), std::back_inserter(cloned),
                 [](const at::Tensor& t) { return t.clone(); });
  return cloned;
}

void restore(std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& saved) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].copy_(saved[i]);
  }
}

}  // namespace

DataParallel::DataParallel(std::shared_ptr<torch::nn::Module> module, process_group::Group group)
    : module_(std::move(module)), group_(std::move(group)), buffers_(module_->buffers()) {
  for (const at::Tensor& parameter : module_->parameters()) {
    if (parameter.requires_grad()) {
      parameters_.push_back(parameter);
    }
  }
}

DataParallel::~DataParallel() = default;

Result<std::unique_ptr<DataParallel>> DataParallel::create(std::shared_ptr<torch::nn::Module> module,
                                                           process_group::Group group) {
  std::unique_ptr<DataParallel> replica(new DataParallel(std::move(module), std::move(group)));
  if (!replica->group_) {
    return replica;
  }
  if (const Result<void> verified = verify_same_model(*replica->module_, replica->group_); !verified) {
    return verified.error();
  }
  const Result<void> made = process_group::guard_collective(replica->group_, [&] {
    replica->broadcast_state();
    replica->make_reducer();
  });
  if (!made) {
    return made.error();
  }
  return replica;
}

void DataParallel::broadcast_state() const {
  std::vector<at::Tensor> state = module_->parameters();
  state.insert(state.end(), buffers_.begin(), buffers_.end());
  broadcast_values(state, group_);
}

void DataParallel::make_reducer() {
  const std::vector<bool> expect_sparse(parameters_.size(), false);
  auto [buckets, limits] =
      c10d::compute_bucket_assignment_by_size(parameters_, {kFirstBucketBytes, kBucketBytes}, expect_sparse);
  std::reverse(buckets.begin(), buckets.end());  // gradients arrive roughly from the last parameter to the first
  reducer_ = std::make_unique<c10d::Reducer>(
      parameters_, buckets, group_, expect_sparse, static_cast<std::int64_t>(kBucketBytes),
      /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true,
      std::unordered_map<std::size_t, std::string>{}, static_cast<std::int64_t>(kFirstBucketBytes),
      /*skip_all_reduce_unused_params=*/false,
      /*use_python_reducer=*/false, std::vector<std::int64_t>{});
}

at::Tensor DataParallel::forward(const Loss& loss) {
  if (!reducer_) {
    return loss();
  }
  if (!step_began_) {
    broadcast_values(buffers_, group_);
  }
  step_began_ = !sync_;
  if (!sync_) {
    return loss();  // the Reducer's hooks do nothing unless it was prepared
  }
  reducer_->prepare_for_forward();
  reducer_->rebuild_buckets();
  at::Tensor result = loss();
  reducer_->prepare_for_backward({result});
  return result;
}

at::Tensor DataParallel::evaluate(const Loss& outputs) {
  const torch::NoGradGuard no_grad;
  return outputs();
}

double DataParallel::clip_grad_norm(double max_norm) {
  return parallel::clip_grad_norm(parameters_, max_norm, nullptr);
}

void DataParallel::zero_grad() {
  for (at::Tensor& parameter : parameters_) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!reducer_) {
      gradient.reset();
    } else if (gradient.defined()) {
      gradient.zero_();
    }
  }
}

void DataParallel::run_once(const Loss& loss) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor random_state = generator.get_state();
  const std::vector<at::Tensor> saved = copies(buffers_);
  zero_grad();
  forward(loss).backward();
  reducer_->rebuild_buckets();
  zero_grad();
  restore(buffers_, saved);
  generator.set_state(random_state);
}

Result<void> DataParallel::warm_up(const Loss& loss) {
  if (!reducer_) {
    return {};
  }
  return process_group::guard_collective(group_, [&] { run_once(loss); });
}

Result<void> DataParallel::sync_buffers() {
  if (!reducer_) {
    return {};
  }
  return process_group::guard_collective(group_, [&] { broadcast_values(buffers_, group_); });
}

}  // namespace rollcall::parallel
