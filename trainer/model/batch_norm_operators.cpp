#include <array>

#include "trainer/model/batch_norm_sums.h"

namespace rollcall::model {
namespace {

constexpr std::array<std::int64_t, 3> kAllButChannels{0, 2, 3};

at::Tensor by_channel(const at::Tensor& values) { return values.view({1, -1, 1, 1}); }

class OperatorPasses final : public SumPasses {
 public:
  bool take(const at::Tensor& /*x*/, const at::Tensor& /*weight*/) const override { return true; }

  at::Tensor normalise(const at::Tensor& x, const Affine& affine, Epilogue epilogue,
                       const at::Tensor& shortcut) const override {
    const torch::NoGradGuard no_grad;
    at::Tensor y = (x - by_channel(affine.mean)).mul_(by_channel(affine.inverse_deviation * affine.weight));
    y.add_(by_channel(affine.bias));
    if (epilogue == Epilogue::AddRelu) {
      y.add_(shortcut);
    }
    if (epilogue != Epilogue::None) {
      y.relu_();
    }
    return y.to(x.scalar_type());
  }

 protected:
  at::Tensor input_sums(const at::Tensor& x) const override {
    const std::int64_t channels = x.size(1);
    at::Tensor sums = at::zeros({2 * channels + 1}, x.options().dtype(at::kDouble));
    if (x.numel() == 0) {
      return sums;
    }
    const std::int64_t values = x.numel() / channels;
    const auto count = static_cast<double>(values);
    const auto [variance, mean] = at::var_mean(x.to(statistics_type(x)), kAllButChannels, /*correction=*/0);
    const at::Tensor exact_mean = mean.to(at::kDouble);
    sums.narrow(0, 0, channels).copy_(exact_mean * count);
    sums.narrow(0, channels, channels).copy_((variance.to(at::kDouble) + exact_mean.square()) * count);
    sums.narrow(0, 2 * channels, 1).fill_(count);
    return sums;
  }

  OutputGradient below_epilogue(at::Tensor gradient, const Normalised& of) const override {
    const at::Tensor values = of.epilogue == Epilogue::None ? gradient : at::threshold_backward(gradient, of.y, 0);
    const at::Tensor exact = values.to(statistics_type(of.x));
    const at::Tensor products = (of.x - by_channel(of.affine.mean)).mul_(exact);
    return {.values = values,
            .above_relu = false,
            .sums = at::cat({exact.sum(kAllButChannels), products.sum(kAllButChannels)}).to(at::kDouble)};
  }

  at::Tensor input_gradient(OutputGradient gradient, const Normalised& of) const override {
    const std::int64_t channels = of.x.size(1);
    const Affine& affine = of.affine;
    const at::Tensor means = (gradient.sums / of.count).to(statistics_type(of.x));
    const at::Tensor slope = means.narrow(0, channels, channels) * affine.inverse_deviation.square();
    at::Tensor result = (of.x - by_channel(affine.mean)).mul_(by_channel(slope)).neg_();
    result.add_(gradient.values).sub_(by_channel(means.narrow(0, 0, channels)));
    return result.mul_(by_channel(affine.inverse_deviation * affine.weight)).to(of.x.scalar_type());
  }
};

}  // namespace

BatchNormPassesPtr operator_passes() {
  static const BatchNormPassesPtr passes = c10::make_intrusive<OperatorPasses>();
  return passes;
}

}  // namespace rollcall::model
