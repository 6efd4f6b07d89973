#include "trainer/distributed/ddp/data_parallel.h"

#include <torch/csrc/autograd/engine.h>
#include <algorithm>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>

#include "trainer/device/element_type.h"

namespace rollcall::parallel {
namespace {

struct Compression {
  process_group::Group group;
  c10::ScalarType type;
  const device::Kernels* kernels;  ///< null: LibTorch's operators
  at::Tensor part;                 ///< [1] where the gradients are: 1 / ranks

  /// Returns gradients, [n], in `type` and divided by the number of ranks.
  [[nodiscard]] at::Tensor compressed(const at::Tensor& gradients) const {
    if (kernels == nullptr || gradients.scalar_type() != at::kFloat) {
      return gradients.to(type).div_(group->getSize());
    }
    at::Tensor to = at::empty_like(gradients, gradients.options().dtype(type));
    kernels->cast_and_scale({.from_type = device::kernels::ElementType::Float32,
                             .to_type = *device::element_type(type),
                             .count = gradients.numel(),
                             .from = gradients.const_data_ptr(),
                             .to = to.mutable_data_ptr(),
                             .scale = part.const_data_ptr<float>()});
    return to;
  }
};

class CompressionHook : public c10d::CppCommHookInterface<Compression> {
 public:
  explicit CompressionHook(const Compression& compression) : c10d::CppCommHookInterface<Compression>(compression) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const torch::NoGradGuard no_grad;
    at::Tensor gradients = bucket.getBufferRef();
    std::vector<at::Tensor> compressed{state_.compressed(gradients)};
    return state_.group->allreduce(compressed)
        ->getFuture()
        ->then(
            [gradients, compressed](c10::ivalue::Future& done) -> c10::IValue {
              (void)done.value();  // throws the failure
              const torch::NoGradGuard no_gradient;
              gradients.copy_(compressed.front());
              return gradients;
            },
            c10::TensorType::get());
  }
};

/// A communication hook for c10d::Reducer that averages a bucket in `type`, as PyTorch's fp16_compress_hook and
/// bf16_compress_hook: gradients are rounded to it, divided by the number of ranks so that float16 does not overflow,
/// added up with one all-reduce, and copied back into the bucket. Kernels round once less.
std::unique_ptr<c10d::CommHookInterface> compress_gradients(const process_group::Group& group,
                                                            const DataParallelOptions& options, c10::Device device) {
  const at::Tensor part = at::full({1}, 1.0 / group->getSize(), at::TensorOptions(device).dtype(at::kFloat));
  return std::make_unique<CompressionHook>(Compression{group, *options.compression, options.kernels, part});
}

}  // namespace

DataParallel::DataParallel(std::shared_ptr<torch::nn::Module> module, process_group::Group group,
                           const DataParallelOptions& options)
    : module_(std::move(module)), group_(std::move(group)), options_(options), buffers_(module_->buffers()) {
  for (const at::Tensor& parameter : module_->parameters()) {
    if (parameter.requires_grad()) {
      parameters_.push_back(parameter);
    }
  }
}

DataParallel::~DataParallel() = default;

Result<std::unique_ptr<DataParallel>> DataParallel::create(std::shared_ptr<torch::nn::Module> module,
                                                           process_group::Group group,
                                                           const DataParallelOptions& options) {
  std::unique_ptr<DataParallel> replica(new DataParallel(std::move(module), std::move(group), options));
  if (!replica->group_) {
    return replica;
  }
  RETURN_IF_ERROR(verify_same_model(*replica->module_, replica->group_));
  RETURN_IF_ERROR(process_group::guard_collective(replica->group_, [&] {
    if (replica->options_.broadcast_at_first) {
      replica->broadcast_state();
    }
    replica->make_reducer();
  }));
  return replica;
}

void DataParallel::broadcast_state() const {
  std::vector<at::Tensor> state = module_->parameters();
  state.insert(state.end(), buffers_.begin(), buffers_.end());
  broadcast_values(state, group_);
}

void DataParallel::make_reducer() {
  const std::vector<bool> expect_sparse(parameters_.size(), false);
  const std::vector<std::size_t> sizes{options_.first_bucket_bytes, options_.bucket_bytes};
  std::vector<at::Tensor> in_order;
  for (const std::int64_t place : options_.gradient_order) {
    at::Tensor& parameter = parameters_.at(static_cast<std::size_t>(place));
    // An existing gradient becomes a view of its bucket at once. The Reducer divides such gradients by the number of
    // ranks; it multiplies others by the reciprocal.
    parameter.mutable_grad() = torch::zeros_like(parameter, at::MemoryFormat::Preserve);
    in_order.push_back(parameter);
  }
  const bool known = !in_order.empty();
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(known ? in_order : parameters_, sizes, expect_sparse,
                                                                   options_.gradient_order);
  if (!known) {
    std::reverse(buckets.begin(), buckets.end());  // gradients arrive roughly from the last parameter to the first
  }
  reducer_ = std::make_shared<c10d::Reducer>(
      parameters_, buckets, group_, expect_sparse, static_cast<std::int64_t>(options_.bucket_bytes),
      options_.find_unused_parameters, /*gradient_as_bucket_view=*/true, std::unordered_map<std::size_t, std::string>{},
      static_cast<std::int64_t>(options_.first_bucket_bytes),
      /*skip_all_reduce_unused_params=*/false,
      /*use_python_reducer=*/false, std::vector<std::int64_t>{});
  logger_ = std::make_shared<c10d::Logger>(reducer_);
  reducer_->set_logger(logger_);
  if (options_.static_graph) {
    reducer_->set_static_graph();
  }
  if (options_.compression) {
    reducer_->register_comm_hook(compress_gradients(group_, options_, parameters_.front().device()));
  }
}

/// With a static graph the first backward only counts gradients, and all are reduced at its end. In Python
/// DistributedDataParallel's _DDPSink does this.
void DataParallel::delay_static_graph(const at::Tensor& loss) {
  if (options_.static_graph && first_backward_ && loss.requires_grad()) {
    loss.register_hook([this](const at::Tensor&) {
      torch::autograd::Engine::get_default_engine().queue_callback([this] { reducer_->delay_all_reduce(); });
    });
  }
  first_backward_ = false;
}

at::Tensor DataParallel::forward(const Loss& loss) {
  if (!reducer_) {
    return loss();
  }
  if (!step_began_ && options_.broadcast_buffers) {
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
  delay_static_graph(result);
  return result;
}

at::Tensor DataParallel::evaluate(const Loss& outputs) {
  const torch::NoGradGuard no_grad;
  return outputs();
}

at::Tensor DataParallel::clip_grad_norm(double max_norm) {
  return parallel::clip_grad_norm(parameters_, max_norm, nullptr);
}

void DataParallel::zero_grad() {
  std::vector<at::Tensor> kept;
  for (at::Tensor& parameter : parameters_) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!reducer_) {
      gradient.reset();
    } else if (gradient.defined()) {
      kept.push_back(gradient);
    }
  }
  if (!kept.empty()) {
    at::_foreach_zero_(kept);  // on a device by a few kernels, not by one for each parameter
  }
}

/// Registers a hook for each parameter that appends its index to `order` when its gradient arrives.
std::vector<unsigned> DataParallel::note_arrivals(std::vector<std::int64_t>& order) const {
  std::vector<unsigned> hooks;
  for (std::size_t place = 0; place < parameters_.size(); ++place) {
    hooks.push_back(parameters_[place].register_hook(
        [&order, place](const at::Tensor&) { order.push_back(static_cast<std::int64_t>(place)); }));
  }
  return hooks;
}

void DataParallel::run_once(const Loss& loss) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor random_state = generator.get_state();
  const std::vector<at::Tensor> saved = copies_of(buffers_);
  std::vector<std::int64_t> order;
  const std::vector<unsigned> hooks = note_arrivals(order);
  const auto put_back = [&] {
    for (std::size_t place = 0; place < hooks.size(); ++place) {
      parameters_[place].remove_hook(hooks[place]);
    }
    copy_values(buffers_, saved);
    generator.set_state(random_state);
  };
  try {
    zero_grad();
    forward(loss).backward();
    reducer_->rebuild_buckets();
    zero_grad();
  } catch (...) {
    put_back();  // the model may be trained further in another world
    throw;
  }
  put_back();
  // Otherwise the Reducer uses another one.
  const bool is_reducers =
      !options_.static_graph && !options_.find_unused_parameters && std::getenv("DDP_SET_LAST_BUCKET_CAP") == nullptr;
  if (is_reducers && order.size() == parameters_.size()) {
    options_.gradient_order = std::move(order);
  }
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
