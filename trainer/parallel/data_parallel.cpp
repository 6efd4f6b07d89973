#include "trainer/parallel/data_parallel.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>

#include "runtime/base/text.h"
#include "trainer/process_group/agree.h"

namespace rollcall::parallel {
namespace {

// PyTorch's own figures: the first bucket is small so that communication starts early, and broadcasts go in large
// pieces.
constexpr std::size_t kFirstBucketBytes = std::size_t{1} << 20;
constexpr std::size_t kBucketBytes = std::size_t{25} << 20;
constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20;

/// One line per parameter: name, type, shape, strides. Replicas with equal text can be reduced together.
std::string describe(const torch::nn::Module& module) {
  std::ostringstream text;
  for (const auto& parameter : module.named_parameters()) {
    const at::Tensor& tensor = parameter.value();
    text << parameter.key() << " " << tensor.dtype() << " " << tensor.sizes() << " strides " << tensor.strides()
         << "\n";
  }
  return text.str();
}

/// Compares this rank's description with rank 0's.
Result<void> compare(const std::string& mine, const std::string& first, std::uint32_t rank) {
  const std::vector<std::string> my_lines = split(mine, '\n');
  const std::vector<std::string> first_lines = split(first, '\n');
  for (std::size_t i = 0; i < std::max(my_lines.size(), first_lines.size()); ++i) {
    const std::string my_line = i < my_lines.size() ? my_lines[i] : "";
    const std::string first_line = i < first_lines.size() ? first_lines[i] : "";
    if (my_line != first_line) {
      return fail("model", my_line.empty() ? "nothing" : my_line,
                  "rank " + std::to_string(rank) + " has this where rank 0 has " +
                      (first_line.empty() ? "nothing" : first_line),
                  "giving every rank the same --model, --num-classes and --channels-last", ExitCode::Mismatch);
    }
  }
  return {};
}

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
  if (const Result<void> verified = replica->verify(); !verified) {
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

// c10d has a check of its own (verify_params_across_processes), but only the ranks that differ learn of it: rank 0 then
// waits for them, and replicas whose numbers of dimensions differ make the check itself fail in the transport.
Result<void> DataParallel::verify() const {
  const std::string mine = describe(*module_);
  const Result<std::vector<std::vector<std::uint8_t>>> all =
      process_group::all_gather_bytes(group_, {mine.begin(), mine.end()});
  if (!all) {
    return all.error();
  }
  const std::string first(all->front().begin(), all->front().end());
  return process_group::agree_or_fail(group_, compare(mine, first, process_group::rank_of(group_)));
}

void DataParallel::broadcast_state() {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> state = module_->parameters();
  state.insert(state.end(), buffers_.begin(), buffers_.end());
  c10d::broadcast_coalesced(group_, state, kBroadcastBytes);
}

void DataParallel::broadcast_buffers() {
  if (buffers_.empty()) {
    return;
  }
  const torch::NoGradGuard no_grad;
  c10d::broadcast_coalesced(group_, buffers_, kBroadcastBytes);
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
  broadcast_buffers();
  reducer_->prepare_for_forward();
  reducer_->rebuild_buckets();
  at::Tensor result = loss();
  reducer_->prepare_for_backward({result});
  return result;
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
  return process_group::guard_collective(group_, [&] { broadcast_buffers(); });
}

}  // namespace rollcall::parallel
