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
                            const BatchStatistics& statistics, bool relu,
                            const c10::intrusive_ptr<StatisticsSum>& ranks) {
    at::Tensor y = normalise(x, statistics, weight, bias, {.shortcut = shortcut.value_or(at::Tensor()), .relu = relu});
    context->save_for_backward({x, weight, statistics.mean, statistics.inverse_deviation, relu ? y : at::Tensor()});
    context->saved_data["count"] = statistics.count;
    context->saved_data["relu"] = relu;
    context->saved_data["adds"] = shortcut.has_value();
    if (ranks) {
      context->saved_data["ranks"] = c10::IValue::make_capsule(ranks);
    }
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const BatchStatistics statistics{.mean = saved[2],
                                     .variance = {},
                                     .inverse_deviation = saved[3],
                                     .count = context->saved_data["count"].toDouble()};
    OutputGradient below = below_epilogue(gradients[0], saved[4], x, statistics, context->saved_data["relu"].toBool());
    const std::int64_t channels = x.size(1);
    const at::Tensor mine = below.sums.to(weight.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    const auto ranks = context->saved_data.find("ranks");
    if (ranks != context->saved_data.end()) {
      static_cast<StatisticsSum*>(ranks->second.toCapsule().get())->add_up(below.sums);
    }
    // In the order of forward()'s arguments; data() because Optimizer::zero_grad() refuses gradients that are views.
    return {input_gradient(below.values, x, statistics, weight, below.sums),
            mine.narrow(0, channels, channels) * statistics.inverse_deviation,
            mine.narrow(0, 0, channels).data(),
            context->saved_data["adds"].toBool() ? below.values : at::Tensor(),
            {},
            {},
            {}};
  }
};

}  // namespace

BatchNormImpl::BatchNormImpl(std::int64_t channels) : torch::nn::BatchNorm2dImpl(channels) {}

at::Tensor BatchNormImpl::forward(const at::Tensor& x) { return run(x, {}); }

at::Tensor BatchNormImpl::relu(const at::Tensor& x) { return run(x, {.shortcut = {}, .relu = true}); }

at::Tensor BatchNormImpl::add_relu(const at::Tensor& x, const at::Tensor& shortcut) {
  return run(x, {.shortcut = shortcut, .relu = true});
}

void BatchNormImpl::share_statistics(c10::intrusive_ptr<StatisticsSum> ranks) { ranks_ = std::move(ranks); }

at::Tensor BatchNormImpl::run(const at::Tensor& x, const Epilogue& epilogue) {
  if (!ranks_ || !is_training()) {
    return run_by_torch(x, epilogue);
  }
  TORCH_CHECK(x.dim() == 4, "batch normalisation wants [N, C, H, W] and got ", x.sizes());
  // The passes choose their own types.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  at::Tensor sums = input_sums(x.detach());
  ranks_->add_up(sums);
  const BatchStatistics statistics = statistics_of(sums, options.eps(), statistics_type(x));
  update_running_statistics(statistics);
  const auto shortcut = epilogue.shortcut.defined() ? std::optional(epilogue.shortcut) : std::nullopt;
  return Normalise::apply(x, weight, bias, shortcut, statistics, epilogue.relu, ranks_);
}

at::Tensor BatchNormImpl::run_by_torch(const at::Tensor& x, const Epilogue& epilogue) {
  at::Tensor y = torch::nn::BatchNorm2dImpl::forward(x);
  // In place: the backward pass of batch normalisation does not look at its output.
  if (epilogue.shortcut.defined()) {
    y.add_(epilogue.shortcut);
  }
  return epilogue.relu ? y.relu_() : y;
}

void BatchNormImpl::update_running_statistics(const BatchStatistics& batch) {
  const torch::NoGradGuard no_grad;
  num_batches_tracked += 1;
  const double momentum = options.momentum().value();
  running_mean.mul_(1 - momentum).add_(batch.mean, momentum);
  running_var.mul_(1 - momentum).add_(batch.variance, momentum * batch.count / (batch.count - 1));
}

}  // namespace rollcall::model
