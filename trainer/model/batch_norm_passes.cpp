#include "trainer/model/batch_norm_passes.h"

#include <ATen/OpMathType.h>
#include <array>
#include <utility>

#include "trainer/model/batch_norm_rows.h"

namespace rollcall::model {
namespace {

constexpr std::array<std::int64_t, 3> kAllButChannels{0, 2, 3};

at::Tensor by_channel(const at::Tensor& values) { return values.view({1, -1, 1, 1}); }

}  // namespace

at::ScalarType statistics_type(const at::Tensor& x) { return at::toOpMathType(x.scalar_type()); }

at::Tensor input_sums(const at::Tensor& x) {
  const torch::NoGradGuard no_grad;
  if (rows::fit(x)) {
    return rows::input_sums(x);
  }
  const std::int64_t channels = x.size(1);
  at::Tensor sums = at::zeros({2 * channels + 1}, x.options().dtype(at::kDouble));
  if (x.numel() == 0) {
    return sums;
  }
  const auto count = static_cast<double>(x.numel() / channels);
  const auto [variance, mean] = at::var_mean(x.to(statistics_type(x)), kAllButChannels, /*correction=*/0);
  const at::Tensor exact_mean = mean.to(at::kDouble);
  sums.narrow(0, 0, channels).copy_(exact_mean * count);
  sums.narrow(0, channels, channels).copy_((variance.to(at::kDouble) + exact_mean.square()) * count);
  sums[2 * channels] = count;
  return sums;
}

BatchStatistics statistics_of(const at::Tensor& sums, double eps, at::ScalarType type) {
  const torch::NoGradGuard no_grad;
  const std::int64_t channels = sums.size(0) / 2;
  const double count = sums[2 * channels].item<double>();
  TORCH_CHECK(count > 1, "batch normalisation in training needs more than one value a channel, and has ", count,
              " in all; a larger batch or larger images");
  const at::Tensor mean = sums.narrow(0, 0, channels) / count;
  const at::Tensor variance = (sums.narrow(0, channels, channels) / count - mean.square()).clamp_min_(0);
  return {.mean = mean.to(type),
          .variance = variance.to(type),
          .inverse_deviation = (variance + eps).rsqrt_().to(type),
          .count = count};
}

at::Tensor normalise(const at::Tensor& x, const Affine& affine, Epilogue epilogue, const at::Tensor& shortcut) {
  const torch::NoGradGuard no_grad;
  if (rows::fit(x)) {
    return rows::normalise(x, affine, epilogue, shortcut);
  }
  const BatchStatistics& statistics = affine.statistics;
  at::Tensor y = (x - by_channel(statistics.mean)).mul_(by_channel(statistics.inverse_deviation * affine.weight));
  y.add_(by_channel(affine.bias));
  if (epilogue == Epilogue::AddRelu) {
    y.add_(shortcut);
  }
  if (epilogue != Epilogue::None) {
    y.relu_();
  }
  return y.to(x.scalar_type());
}

OutputGradient below_epilogue(at::Tensor gradient, const at::Tensor& y, const at::Tensor& x, const Affine& affine,
                              Epilogue epilogue) {
  const torch::NoGradGuard no_grad;
  if (rows::fit(x)) {
    return rows::below_epilogue(std::move(gradient), y, x, affine, epilogue);
  }
  at::Tensor values = epilogue == Epilogue::None ? gradient : at::threshold_backward(gradient, y, 0);
  const at::Tensor exact = values.to(statistics_type(x));
  const at::Tensor products = (x - by_channel(affine.statistics.mean)).mul_(exact);
  return {.values = values,
          .above_relu = false,
          .sums = at::cat({exact.sum(kAllButChannels), products.sum(kAllButChannels)}).to(at::kDouble)};
}

at::Tensor input_gradient(OutputGradient gradient, const at::Tensor& x, const Affine& affine) {
  const torch::NoGradGuard no_grad;
  if (rows::fit(x)) {
    return rows::input_gradient(std::move(gradient), x, affine);
  }
  const std::int64_t channels = x.size(1);
  const BatchStatistics& statistics = affine.statistics;
  const at::Tensor means = (gradient.sums / statistics.count).to(statistics_type(x));
  const at::Tensor slope = means.narrow(0, channels, channels) * statistics.inverse_deviation.square();
  at::Tensor result = (x - by_channel(statistics.mean)).mul_(by_channel(slope)).neg_();
  result.add_(gradient.values).sub_(by_channel(means.narrow(0, 0, channels)));
  return result.mul_(by_channel(statistics.inverse_deviation * affine.weight)).to(x.scalar_type());
}

}  // namespace rollcall::model
