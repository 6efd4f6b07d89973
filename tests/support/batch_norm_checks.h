#pragma once

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/multiproc.h"
#include "trainer/device/device.h"
#include "trainer/distributed/ddp/make_replica.h"
#include "trainer/model/batch_norm.h"

// Batch normalisation by a device's own kernels beside LibTorch's autograd in float64, on whatever device there is.
namespace rollcall::model {

inline constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

struct Case {
  std::int64_t images, channels, size;
  at::ScalarType type;
  Epilogue epilogue;
};

/// Channels of one element at once and of many; values of several blocks of threads.
inline std::vector<Case> batch_norm_cases() {
  std::vector<Case> all;
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const Epilogue epilogue : {Epilogue::None, Epilogue::Relu, Epilogue::AddRelu, Epilogue::ReluMaxPool}) {
      for (const auto& [images, channels, size] : {std::tuple{3, 5, 7}, {3, 64, 16}}) {
        all.push_back({images, channels, size, type, epilogue});
      }
    }
  }
  return all;
}

/// Whether LibTorch's autograd in float64 can be compared with: rounding to 16 bits makes equal values of a window.
inline bool has_exact(const Case& of) { return of.epilogue != Epilogue::ReluMaxPool || of.type == at::kFloat; }

struct Inputs {
  explicit Inputs(const Case& of) {
    at::Generator generator = at::detail::createCPUGenerator(7);
    const auto draw = [&](double mean) {
      const at::Tensor values = torch::randn({of.images, of.channels, of.size, of.size}, generator) + mean;
      return values.to(of.type).contiguous(kChannelsLast);
    };
    x = draw(2);
    shortcut = draw(0);
    gradient = draw(0.2);
    second = draw(0.1);
  }

  /// The part of a gradient that an output has: with max pooling a quarter.
  static at::Tensor of_output(const at::Tensor& gradient, const at::Tensor& y) {
    return gradient.narrow(2, 0, y.size(2)).narrow(3, 0, y.size(3)).contiguous(kChannelsLast);
  }

  at::Tensor x, shortcut, gradient, second;
};

struct Answer {
  at::Tensor y, x_gradient, shortcut_gradient, weight_gradient, bias_gradient, mean, variance;
};

inline BatchNorm make_layer(std::int64_t channels) {
  BatchNorm layer(channels);
  const torch::NoGradGuard no_grad;
  layer->weight.copy_(torch::linspace(0.5, 1.5, channels));
  layer->bias.copy_(torch::linspace(-1, 1, channels));
  return layer;
}

inline at::Tensor output_of(BatchNorm& layer, Epilogue epilogue, const at::Tensor& x, const at::Tensor& shortcut) {
  return epilogue == Epilogue::None      ? layer->forward(x)
         : epilogue == Epilogue::Relu    ? layer->relu(x)
         : epilogue == Epilogue::AddRelu ? layer->add_relu(x, shortcut)
                                         : layer->relu_max_pool(x);
}

/// Of images `first` and so many: forward and backward of an output that is used twice, where the layer's parameters
/// are and in `type`.
inline Answer answer_of(BatchNorm& layer, const Case& of, at::ScalarType type, std::int64_t first, std::int64_t count) {
  const Inputs in(of);
  const auto mine = [&](const at::Tensor& all) {
    return all.narrow(0, first, count).to(type).contiguous(kChannelsLast).to(layer->weight.device()).detach();
  };
  const at::Tensor x = mine(in.x).requires_grad_();
  const at::Tensor shortcut = mine(in.shortcut).requires_grad_();
  const at::Tensor y = output_of(layer, of.epilogue, x, shortcut);
  torch::autograd::backward({y, second_use(y)},
                            {mine(Inputs::of_output(in.gradient, y)), mine(Inputs::of_output(in.second, y))});
  const auto shown = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.detach().cpu() : tensor; };
  return {shown(y),
          shown(x.grad()),
          shown(shortcut.grad()),
          shown(layer->weight.grad()),
          shown(layer->bias.grad()),
          shown(layer->running_mean),
          shown(layer->running_var)};
}

inline Answer exact(const Case& of) {
  BatchNorm layer = make_layer(of.channels);
  layer->to(at::kDouble);
  return answer_of(layer, of, at::kDouble, 0, of.images);
}

inline Answer by_kernels(const device::Device& device, const Case& of, const process_group::Group& group,
                         std::int64_t first, std::int64_t count, const device::KernelParts& parts = {}) {
  BatchNorm layer = make_layer(of.channels);
  device.place(*layer);
  use_kernels(*layer, device.kernels(), parts);
  parallel::synchronise_batch_norms(*layer, group);
  return answer_of(layer, of, of.type, first, count);
}

/// Two ranks with the same batch.
class Twins final : public StatisticsRanks {
 public:
  at::Tensor gather(const at::Tensor& mine) override { return at::stack({mine, mine}); }
  void add_up(at::Tensor& sums) override { sums.mul_(2); }
};

/// What the kernels' passes write, on the CPU: with the `kernels` of `where`, whose tensors they take.
inline std::vector<at::Tensor> passes_of(const device::Kernels& kernels, c10::Device where, const Case& of,
                                         StatisticsRanks* ranks, const device::KernelParts& parts = {}) {
  const BatchNormPassesPtr passes = kernel_passes(kernels, parts);
  const Inputs in(of);
  const auto there = [&](const at::Tensor& tensor) { return tensor.detach().clone().to(where); };
  const BatchNorm layer = make_layer(of.channels);
  const RunningStatistics running{
      .mean = there(layer->running_mean), .variance = there(layer->running_var), .momentum = 0.1, .eps = 1e-5};
  const at::Tensor x = there(in.x);
  const BatchStatistics batch = passes->statistics(x, running, ranks);
  const Affine affine{.mean = batch.mean,
                      .inverse_stddev = batch.inverse_stddev,
                      .weight = there(layer->weight),
                      .bias = there(layer->bias)};
  const auto [y, kept] = passes->normalise(x, affine, of.epilogue, there(in.shortcut), /*keeps=*/true);
  at::Tensor first = there(Inputs::of_output(in.gradient, y));
  at::Tensor second = passes->adds_gradients(of.epilogue) ? there(Inputs::of_output(in.second, y)) : at::Tensor();
  const Gradients gradients =
      passes->backward(std::move(first), std::move(second),
                       {.x = x, .kept = kept, .affine = affine, .count = batch.count, .epilogue = of.epilogue}, ranks);
  std::vector<at::Tensor> all{batch.mean, batch.inverse_stddev, batch.count,      running.mean,  running.variance,
                              y,          gradients.x,          gradients.weight, gradients.bias};
  if (gradients.shortcut.defined()) {
    all.push_back(gradients.shortcut);
  }
  for (at::Tensor& tensor : all) {
    tensor = tensor.cpu();
  }
  return all;
}

/// All tensors of an answer that are there.
inline std::vector<at::Tensor> tensors_of(const Answer& answer) {
  std::vector<at::Tensor> all{answer.y,    answer.x_gradient, answer.weight_gradient, answer.bias_gradient,
                              answer.mean, answer.variance};
  if (answer.shortcut_gradient.defined()) {
    all.push_back(answer.shortcut_gradient);
  }
  return all;
}

inline bool same_bits(const Answer& one, const Answer& other) {
  return std::ranges::equal(tensors_of(one), tensors_of(other),
                            [](const at::Tensor& a, const at::Tensor& b) { return a.equal(b); });
}

/// The largest difference, in units of the expected tensor's largest value.
inline double error(const at::Tensor& ours, const at::Tensor& wanted) {
  const at::Tensor difference = (ours.to(at::kDouble) - wanted).abs();
  return difference.numel() == 0 ? 0 : (difference.max() / wanted.abs().max()).item<double>();
}

/// Of images `first` and so many; sums over a batch are all ranks'.
inline void check(const Answer& ours, const Answer& all, const Case& of, std::int64_t first, std::int64_t count) {
  const double tolerance = of.type == at::kFloat ? 2e-6 : of.type == at::kHalf ? 1e-3 : 8e-3;
  const auto part = [&](const at::Tensor& tensor) { return tensor.narrow(0, first, count); };
  MULTIPROC_CHECK(ours.y.scalar_type() == of.type && ours.x_gradient.scalar_type() == of.type);
  MULTIPROC_CHECK(ours.weight_gradient.scalar_type() == at::kFloat);
  // A value that rounding moves over the ReLU's edge takes its whole gradient with it: hardly any may.
  const bool has_edge = of.epilogue == Epilogue::Relu || of.epilogue == Epilogue::AddRelu;
  const at::Tensor moved = has_edge ? ours.y.gt(0).ne(part(all.y).gt(0)) : ours.x_gradient.ne(ours.x_gradient);
  MULTIPROC_CHECK(!has_edge || moved.sum().item<std::int64_t>() <= 1 + moved.numel() / 1000);
  const at::Tensor same = has_edge ? moved.logical_not() : at::ones_like(moved);
  MULTIPROC_CHECK(error(ours.y, part(all.y)) < tolerance);
  MULTIPROC_CHECK(error(ours.x_gradient * same, part(all.x_gradient) * same) < 4 * tolerance);
  if (of.epilogue == Epilogue::AddRelu) {
    MULTIPROC_CHECK(error(ours.shortcut_gradient * same, part(all.shortcut_gradient) * same) < tolerance);
  }
  MULTIPROC_CHECK(error(ours.weight_gradient, all.weight_gradient) < 10 * tolerance);
  MULTIPROC_CHECK(error(ours.bias_gradient, all.bias_gradient) < 10 * tolerance);
  MULTIPROC_CHECK(error(ours.mean, all.mean) < 1e-6);
  MULTIPROC_CHECK(error(ours.variance, all.variance) < 1e-6);
}

}  // namespace rollcall::model
