#include <ATen/OpMathType.h>

#include <utility>

#include "trainer/model/batch_norm_passes.h"

namespace rollcall::model {
namespace {

at::ScalarType statistics_type(const at::Tensor& x) { return at::toOpMathType(x.scalar_type()); }

/// Computes (x - mean) * factor + bias of each channel with LibTorch's batch normalisation, which reads x once.
at::Tensor per_channel(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& factor, const at::Tensor& bias) {
  return std::get<0>(at::native_batch_norm(x, factor, bias, mean, at::ones_like(mean), /*training=*/false,
                                           /*momentum=*/0, /*eps=*/0));
}

/// [2 C + 1]: for each channel the sum of x, then for each the sum of its squares, then the number of values a channel.
/// float64, so that neither the number of ranks nor a mean far from 0 costs digits.
at::Tensor input_sums(const at::Tensor& x) {
  const std::int64_t channels = x.size(1);
  at::Tensor sums = at::zeros({2 * channels + 1}, x.options().dtype(at::kDouble));
  if (x.numel() == 0) {
    return sums;
  }
  const auto count = static_cast<double>(x.numel()) / static_cast<double>(channels);
  const at::Tensor unchanged = at::zeros({channels}, x.options().dtype(statistics_type(x)));
  const auto [mean, variance] = at::batch_norm_update_stats(x, unchanged, unchanged, /*momentum=*/0);
  const at::Tensor exact_mean = mean.to(at::kDouble);
  sums.narrow(0, 0, channels).copy_(exact_mean * count);
  sums.narrow(0, channels, channels).copy_((variance.to(at::kDouble) + exact_mean.square()) * count);
  sums.narrow(0, 2 * channels, 1).fill_(count);
  return sums;
}

/// Results of LibTorch's batch normalisation in eval mode for the gradient before the epilogue: the part of x's
/// gradient that does not come from the statistics, and [2 C] float64: for each channel the gradient's sum, then for
/// each the sum of its product with x - mean.
struct WithoutStatistics {
  at::Tensor x_gradient;
  at::Tensor sums;
};

WithoutStatistics without_statistics(const at::Tensor& gradient, const at::Tensor& x, const Affine& affine,
                                     const at::Tensor& factor) {
  if (x.numel() == 0) {
    return {at::empty_like(x), at::zeros({2 * x.size(1)}, x.options().dtype(at::kDouble))};
  }
  auto [of_x, products, sum] =
      at::native_batch_norm_backward(gradient, x, factor, affine.mean, at::ones_like(affine.mean), {}, {},
                                     /*train=*/false, /*eps=*/0, {true, true, true});
  return {std::move(of_x), at::cat({sum, products}).to(at::kDouble)};
}

class OperatorPasses final : public BatchNormPasses {
 public:
  BatchStatistics statistics(const at::Tensor& x, const RunningStatistics& running,
                             StatisticsRanks* ranks) const override {
    const torch::NoGradGuard no_grad;
    at::Tensor sums = input_sums(x);
    if (ranks != nullptr) {
      ranks->add_up(sums);
    }
    const std::int64_t channels = x.size(1);
    const at::Tensor count = sums.narrow(0, 2 * channels, 1);
    if (count.is_cpu()) {  // for a device's count the host would have to wait
      TORCH_CHECK(count.item<double>() > 1,
                  "batch normalisation in training needs more than one value a channel, and has ", count.item<double>(),
                  " in all; try raising --batch-size, or --image-size");
    }
    const at::ScalarType type = statistics_type(x);
    const at::Tensor mean = sums.narrow(0, 0, channels) / count;
    const at::Tensor variance = (sums.narrow(0, channels, channels) / count - mean.square()).clamp_min_(0);
    const at::Tensor unbiased = variance * (count / (count - 1));
    running.mean.mul_(1 - running.momentum).add_(mean.to(type), running.momentum);
    running.variance.mul_(1 - running.momentum).add_(unbiased.to(type), running.momentum);
    return {.mean = mean.to(type), .inverse_stddev = (variance + running.eps).rsqrt_().to(type), .count = count};
  }

  Output normalise(const at::Tensor& x, const Affine& affine, Epilogue epilogue, const at::Tensor& shortcut,
                   bool /*keeps*/) const override {
    const torch::NoGradGuard no_grad;
    const at::Tensor y = output(x, affine, epilogue, shortcut);
    return {.y = y, .kept = epilogue == Epilogue::None ? at::Tensor() : y};
  }

  Gradients backward(at::Tensor gradient, at::Tensor /*second*/, const Normalised& of,
                     StatisticsRanks* ranks) const override {
    const torch::NoGradGuard no_grad;
    const Affine& affine = of.affine;
    const at::Tensor below =
        of.epilogue == Epilogue::None ? std::move(gradient) : at::threshold_backward(gradient, of.kept, 0);
    const at::Tensor factor = affine.inverse_stddev * affine.weight;
    WithoutStatistics made = without_statistics(below, of.x, affine, factor);
    const at::Tensor mine = made.sums.to(affine.weight.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    if (ranks != nullptr) {
      ranks->add_up(made.sums);
    }
    const std::int64_t channels = of.x.size(1);
    const at::Tensor means = (made.sums / of.count).to(statistics_type(of.x));
    const at::Tensor slope = means.narrow(0, channels, channels) * affine.inverse_stddev.square();
    if (of.x.numel() > 0) {  // the statistics' part: -(mean gradient + (x - mean) * slope) * factor
      made.x_gradient.add_(
          per_channel(of.x, affine.mean, (slope * factor).neg_(), (means.narrow(0, 0, channels) * factor).neg_()));
    }
    // data() because Optimizer::zero_grad() refuses gradients that are views.
    return {.x = std::move(made.x_gradient),
            .weight = mine.narrow(0, channels, channels) * affine.inverse_stddev,
            .bias = mine.narrow(0, 0, channels).data(),
            .shortcut = of.epilogue == Epilogue::AddRelu ? below : at::Tensor()};
  }

  [[nodiscard]] bool adds_gradients(Epilogue /*epilogue*/) const override { return false; }
  [[nodiscard]] bool pools() const override { return false; }

 private:
  static at::Tensor output(const at::Tensor& x, const Affine& affine, Epilogue epilogue, const at::Tensor& shortcut) {
    if (x.numel() == 0) {
      return at::empty_like(x);
    }
    at::Tensor y = per_channel(x, affine.mean, affine.inverse_stddev * affine.weight, affine.bias);
    if (epilogue == Epilogue::AddRelu) {
      y.add_(shortcut);
    }
    return epilogue == Epilogue::None ? y : y.relu_();
  }
};

}  // namespace

BatchNormPassesPtr operator_passes() {
  static const BatchNormPassesPtr passes = c10::make_intrusive<OperatorPasses>();
  return passes;
}

}  // namespace rollcall::model
