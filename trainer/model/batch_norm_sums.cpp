#include "trainer/model/batch_norm_sums.h"

#include <utility>

namespace rollcall::model {

BatchStatistics SumPasses::statistics(const at::Tensor& x, const RunningStatistics& running,
                                      StatisticsRanks* ranks) const {
  const torch::NoGradGuard no_grad;
  at::Tensor sums = input_sums(x);
  if (ranks != nullptr) {
    ranks->add_up(sums);
  }
  const std::int64_t channels = x.size(1);
  const at::Tensor count = sums.narrow(0, 2 * channels, 1);
  if (count.is_cpu()) {  // a device's would have to be waited for
    TORCH_CHECK(count.item<double>() > 1,
                "batch normalisation in training needs more than one value a channel, and has ", count.item<double>(),
                " in all; a larger batch or larger images");
  }
  const at::ScalarType type = statistics_type(x);
  const at::Tensor mean = sums.narrow(0, 0, channels) / count;
  const at::Tensor variance = (sums.narrow(0, channels, channels) / count - mean.square()).clamp_min_(0);
  const at::Tensor unbiased = variance * (count / (count - 1));
  running.mean.mul_(1 - running.momentum).add_(mean.to(type), running.momentum);
  running.variance.mul_(1 - running.momentum).add_(unbiased.to(type), running.momentum);
  return {.mean = mean.to(type), .inverse_deviation = (variance + running.eps).rsqrt_().to(type), .count = count};
}

Gradients SumPasses::backward(at::Tensor gradient, const Normalised& of, StatisticsRanks* ranks) const {
  const torch::NoGradGuard no_grad;
  OutputGradient below = below_epilogue(std::move(gradient), of);
  const at::Tensor mine = below.sums.to(of.affine.weight.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  if (ranks != nullptr) {
    ranks->add_up(below.sums);
  }
  at::Tensor shortcut = of.epilogue == Epilogue::AddRelu ? below.values : at::Tensor();
  const std::int64_t channels = of.x.size(1);
  // data() because Optimizer::zero_grad() refuses gradients that are views.
  return {.x = input_gradient(std::move(below), of),
          .weight = mine.narrow(0, channels, channels) * of.affine.inverse_deviation,
          .bias = mine.narrow(0, 0, channels).data(),
          .shortcut = std::move(shortcut)};
}

}  // namespace rollcall::model
