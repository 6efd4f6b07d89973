#include "trainer/model/batch_norm.h"

#include <ATen/core/ivalue.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <utility>

namespace rollcall::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// normalise() with the gradient that takes into account that the statistics depend on x.
class Normalise : public torch::autograd::Function<Normalise> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const std::optional<at::Tensor>& shortcut,
                            const BatchStatistics& statistics, Epilogue epilogue,
                            const c10::intrusive_ptr<StatisticsSum>& ranks) {
    at::Tensor y = normalise(x, {statistics, weight, bias}, epilogue, shortcut.value_or(at::Tensor()));
    context->save_for_backward({x, weight, bias, statistics.mean, statistics.inverse_deviation,
                                epilogue == Epilogue::None ? at::Tensor() : y});
    context->saved_data["count"] = statistics.count;
    context->saved_data["epilogue"] = static_cast<std::int64_t>(epilogue);
    context->saved_data["ranks"] = c10::IValue::make_capsule(ranks);
    return y;
  }

  /// By reference: what is moved out of `gradients` belongs to nobody else, and its memory can be used again.
  static variable_list backward(AutogradContext* context, variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const Affine affine{.statistics = {.mean = saved[3],
                                       .variance = {},
                                       .inverse_deviation = saved[4],
                                       .count = context->saved_data["count"].toDouble()},
                        .weight = saved[1],
                        .bias = saved[2]};
    const auto epilogue = static_cast<Epilogue>(context->saved_data["epilogue"].toInt());
    OutputGradient below = below_epilogue(std::move(gradients[0]), saved[5], x, affine, epilogue);
    const at::Tensor mine = below.sums.to(affine.weight.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    static_cast<StatisticsSum*>(context->saved_data["ranks"].toCapsule().get())->add_up(below.sums);
    const at::Tensor shortcut_gradient = epilogue == Epilogue::AddRelu ? below.values : at::Tensor();
    const std::int64_t channels = x.size(1);
    // In the order of forward()'s arguments; data() because Optimizer::zero_grad() refuses gradients that are views.
    return {input_gradient(std::move(below), x, affine),
            mine.narrow(0, channels, channels) * affine.statistics.inverse_deviation,
            mine.narrow(0, 0, channels).data(),
            shortcut_gradient,
            {},
            {},
            {}};
  }
};

}  // namespace

BatchNormImpl::BatchNormImpl(std::int64_t channels) : torch::nn::BatchNorm2dImpl(channels) {}

at::Tensor BatchNormImpl::forward(const at::Tensor& x) { return run(x, Epilogue::None, {}); }

at::Tensor BatchNormImpl::relu(const at::Tensor& x) { return run(x, Epilogue::Relu, {}); }

at::Tensor BatchNormImpl::add_relu(const at::Tensor& x, const at::Tensor& shortcut) {
  return run(x, Epilogue::AddRelu, shortcut);
}

void BatchNormImpl::share_statistics(c10::intrusive_ptr<StatisticsSum> ranks) { ranks_ = std::move(ranks); }

at::Tensor BatchNormImpl::run(const at::Tensor& x, Epilogue epilogue, const at::Tensor& shortcut) {
  return is_training() && ranks_ ? run_shared(x, epilogue, shortcut) : run_by_torch(x, epilogue, shortcut);
}

at::Tensor BatchNormImpl::run_shared(const at::Tensor& x, Epilogue epilogue, const at::Tensor& shortcut) {
  TORCH_CHECK(x.dim() == 4, "batch normalisation wants [N, C, H, W] and got ", x.sizes());
  // The passes choose their own types.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  at::Tensor sums = input_sums(x.detach());
  ranks_->add_up(sums);
  const BatchStatistics statistics = statistics_of(sums, options.eps(), statistics_type(x));
  update_running_statistics(statistics);
  return Normalise::apply(x, weight, bias, shortcut.defined() ? std::optional(shortcut) : std::nullopt, statistics,
                          epilogue, ranks_);
}

at::Tensor BatchNormImpl::run_by_torch(const at::Tensor& x, Epilogue epilogue, const at::Tensor& shortcut) {
  at::Tensor y = torch::nn::BatchNorm2dImpl::forward(x);
  // In place: the backward pass of batch normalisation does not look at its output.
  if (epilogue == Epilogue::AddRelu) {
    y.add_(shortcut);
  }
  return epilogue == Epilogue::None ? y : y.relu_();
}

void BatchNormImpl::update_running_statistics(const BatchStatistics& batch) {
  const torch::NoGradGuard no_grad;
  num_batches_tracked += 1;
  const double momentum = options.momentum().value();
  running_mean.mul_(1 - momentum).add_(batch.mean, momentum);
  running_var.mul_(1 - momentum).add_(batch.variance, momentum * batch.count / (batch.count - 1));
}

}  // namespace rollcall::model
