#include "trainer/model/batch_norm.h"

#include <ATen/core/ivalue.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <utility>

namespace rollcall::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Data that forward and backward of a layer share besides tensors.
struct Manner : torch::CustomClassHolder {
  Manner(BatchNormPassesPtr of_passes, c10::intrusive_ptr<StatisticsRanks> of_ranks, Epilogue of_epilogue)
      : passes(std::move(of_passes)), ranks(std::move(of_ranks)), epilogue(of_epilogue) {}
  const BatchNormPassesPtr passes;
  const c10::intrusive_ptr<StatisticsRanks> ranks;  ///< null if statistics are not shared
  const Epilogue epilogue;
};

/// The autograd function of the normalisation, whose gradient accounts for the dependence of the statistics on x.
class Normalise : public torch::autograd::Function<Normalise> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const std::optional<at::Tensor>& shortcut,
                            const BatchStatistics& statistics, const c10::intrusive_ptr<Manner>& manner) {
    const Affine affine{statistics.mean, statistics.inverse_stddev, weight, bias};
    const Output made =
        manner->passes->normalise(x, affine, manner->epilogue, shortcut.value_or(at::Tensor()), /*keeps=*/true);
    context->save_for_backward(
        {x, weight, bias, statistics.mean, statistics.inverse_stddev, statistics.count, made.kept});
    context->saved_data[kManner] = c10::IValue::make_capsule(manner);
    context->set_materialize_grads(false);
    return made.y;
  }

  /// Takes `gradients` by reference: a tensor moved out of it has no other owner, so its memory can be reused.
  static variable_list backward(AutogradContext* context, variable_list& gradients) {
    at::Tensor first = std::move(gradients[0]);
    at::Tensor second = gradients.size() > 1 ? std::move(gradients[1]) : at::Tensor();
    if (!first.defined()) {
      std::swap(first, second);
    }
    if (!first.defined()) {
      return variable_list(6);
    }
    const variable_list saved = context->get_saved_variables();
    const Manner& manner = manner_of(*context);
    const Normalised of{.x = saved[0],
                        .kept = saved[6],
                        .affine = {.mean = saved[3], .inverse_stddev = saved[4], .weight = saved[1], .bias = saved[2]},
                        .count = saved[5],
                        .epilogue = manner.epilogue};
    Gradients made = manner.passes->backward(std::move(first), std::move(second), of, manner.ranks.get());
    // In the order of forward()'s arguments.
    return {std::move(made.x), std::move(made.weight), std::move(made.bias), std::move(made.shortcut), {}, {}};
  }

  static const Manner& manner_of(const AutogradContext& context) {
    return static_cast<const Manner&>(*context.saved_data.at(kManner).toCapsule());
  }

 private:
  static constexpr const char* kManner = "manner";
};

}  // namespace

BatchNormImpl::BatchNormImpl(std::int64_t channels) : torch::nn::BatchNorm2dImpl(channels) {}

at::Tensor BatchNormImpl::forward(const at::Tensor& x) { return run(x, Epilogue::None, {}); }

at::Tensor BatchNormImpl::relu(const at::Tensor& x) { return run(x, Epilogue::Relu, {}); }

at::Tensor BatchNormImpl::add_relu(const at::Tensor& x, const at::Tensor& shortcut) {
  return run(x, Epilogue::AddRelu, shortcut);
}

at::Tensor BatchNormImpl::relu_max_pool(const at::Tensor& x) {
  const BatchNormPassesPtr passes = passes_for(x);
  return passes && passes->pools() ? run_at_once(passes, x, Epilogue::ReluMaxPool, {})
                                   : torch::max_pool2d(relu(x), 3, 2, 1);
}

void BatchNormImpl::share_statistics(c10::intrusive_ptr<StatisticsRanks> ranks) { ranks_ = std::move(ranks); }

void BatchNormImpl::use_kernels(const device::Kernels* kernels, const device::KernelParts& parts) {
  kernels_ = kernels == nullptr ? BatchNormPassesPtr() : kernel_passes(*kernels, parts);
}

BatchNormPassesPtr BatchNormImpl::passes_for(const at::Tensor& x) const {
  const bool shares = is_training() && ranks_;
  TORCH_CHECK(!shares || x.dim() == 4, "batch normalisation wants [N, C, H, W] and got ", x.sizes());
  if (kernels_ && kernels_take(x, weight)) {
    const bool has_variance = shares || x.numel() > x.size(1);
    const bool records = torch::GradMode::is_enabled();
    return (is_training() ? has_variance : !records) ? kernels_ : BatchNormPassesPtr();
  }
  return shares ? operator_passes() : BatchNormPassesPtr();
}

at::Tensor BatchNormImpl::run(const at::Tensor& x, Epilogue epilogue, const at::Tensor& shortcut) {
  const BatchNormPassesPtr passes = passes_for(x);
  return passes ? run_at_once(passes, x, epilogue, shortcut) : run_by_torch(x, epilogue, shortcut);
}

at::Tensor BatchNormImpl::run_at_once(const BatchNormPassesPtr& passes, const at::Tensor& x, Epilogue epilogue,
                                      const at::Tensor& shortcut) {
  // The passes choose their own types.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  if (!is_training()) {
    const at::Tensor inverse_stddev = (running_var + options.eps()).rsqrt_();
    return passes->normalise(x, {running_mean, inverse_stddev, weight, bias}, epilogue, shortcut, /*keeps=*/false).y;
  }
  num_batches_tracked += 1;
  const RunningStatistics running{
      .mean = running_mean, .variance = running_var, .momentum = options.momentum().value(), .eps = options.eps()};
  const BatchStatistics statistics = passes->statistics(x.detach(), running, ranks_.get());
  return Normalise::apply(x, weight, bias, shortcut.defined() ? std::optional(shortcut) : std::nullopt, statistics,
                          c10::make_intrusive<Manner>(passes, ranks_, epilogue));
}

at::Tensor BatchNormImpl::run_by_torch(const at::Tensor& x, Epilogue epilogue, const at::Tensor& shortcut) {
  at::Tensor y = torch::nn::BatchNorm2dImpl::forward(x);
  // In place: the backward pass of batch normalisation does not read its output.
  if (epilogue == Epilogue::AddRelu) {
    y.add_(shortcut);
  }
  return epilogue == Epilogue::None ? y : y.relu_();
}

void use_kernels(torch::nn::Module& module, const device::Kernels* kernels, const device::KernelParts& parts) {
  for (const std::shared_ptr<torch::nn::Module>& child : module.modules()) {
    if (auto* const batch_norm = child->as<BatchNormImpl>()) {
      batch_norm->use_kernels(kernels, parts);
    }
  }
}

at::Tensor second_use(const at::Tensor& y) {
  const auto& function = y.grad_fn();
  auto* const node = dynamic_cast<torch::autograd::CppNode<Normalise>*>(function.get());
  if (node == nullptr || node->num_inputs() != 1) {
    return y;
  }
  const Manner& manner = Normalise::manner_of(node->ctx_);
  if (!manner.passes->adds_gradients(manner.epilogue)) {
    return y;
  }
  at::Tensor second = y.variable_data();  // the same memory
  torch::autograd::impl::set_gradient_edge(second, {function, node->add_input_metadata(y)});
  return second;
}

}  // namespace rollcall::model
