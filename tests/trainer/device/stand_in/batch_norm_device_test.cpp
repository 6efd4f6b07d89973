// Batch normalisation by the project's own kernels, on a device as strict as a GPU: LibTorch's autograd in float64
// within the rounding of its type, alone and over ranks, and the host waits for none of it.

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/batch_norm_checks.h"
#include "tests/support/kernels_on_host.h"
#include "tests/support/silent_plugin.h"
#include "tests/support/stand_in_device.h"

namespace rollcall::model {
namespace {

using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::report;
using testing_support::spawn;
namespace stand_in = testing_support::stand_in;

device::Device with_kernels() {
  static const device::Plugin plugin =
      testing_support::silent_plugin(stand_in::device().type(), &stand_in::own_kernels());
  return {plugin, 0, {}};
}

/// In a process of its own: a device starts threads, and other tests fork.
void run(const std::function<void()>& test) {
  const auto ranks = spawn(1, [&](Rank& /*rank*/) { test(); });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(BatchNormOnADevice, GradientsMatchAutogradInFloat64) {
  run([] {
    for (const Case& of : batch_norm_cases()) {
      if (has_exact(of)) {
        check(by_kernels(with_kernels(), of, nullptr, 0, of.images), exact(of), of, 0, of.images);
      }
    }
  });
}

TEST(BatchNormOnADevice, IsBitIdenticalToItsKernelsOnTheHost) {
  run([] {
    const auto twins = c10::make_intrusive<Twins>();
    for (const Case& of : batch_norm_cases()) {
      const auto there = passes_of(stand_in::own_kernels(), stand_in::device(), of, twins.get());
      const auto here = passes_of(testing_support::kernels_on_host(), at::kCPU, of, twins.get());
      for (std::size_t i = 0; i < here.size(); ++i) {
        MULTIPROC_CHECK(there.at(i).equal(here[i]));
      }
    }
  });
}

/// With max pooling without its part, LibTorch's operator pools the output of the batch norm.
TEST(BatchNormOnADevice, EachPartHasTheSameBitsAsWithoutIt) {
  run([] {
    for (const Case& of : batch_norm_cases()) {
      const Answer plain = by_kernels(with_kernels(), of, nullptr, 0, of.images, device::kNoKernelParts);
      for (const auto& [name, part] : device::kKernelParts) {
        device::KernelParts parts = device::kNoKernelParts;
        parts.*part = true;
        MULTIPROC_CHECK(same_bits(by_kernels(with_kernels(), of, nullptr, 0, of.images, parts), plain));
      }
      MULTIPROC_CHECK(same_bits(by_kernels(with_kernels(), of, nullptr, 0, of.images), plain));
    }
  });
}

TEST(BatchNormOnADevice, ASecondUseOfAnOutputIsAnotherTensorIfItsGradientsAreAddedThere) {
  run([] {
    const Inputs in({2, 8, 4, at::kFloat, Epilogue::AddRelu});
    const at::Tensor x = in.x.to(stand_in::device()).requires_grad_();
    const auto is_another = [&](Epilogue epilogue, bool adds) {
      BatchNorm layer = make_layer(8);
      with_kernels().place(*layer);
      device::KernelParts parts;
      parts.residual_gradient = adds;
      use_kernels(*layer, with_kernels().kernels(), parts);
      const at::Tensor y = output_of(layer, epilogue, x, x);
      const at::Tensor second = second_use(y);
      MULTIPROC_CHECK(second.data_ptr() == y.data_ptr() && second_use(y).is_same(y));
      return !second.is_same(y);
    };
    for (const Epilogue epilogue : {Epilogue::AddRelu, Epilogue::ReluMaxPool}) {
      MULTIPROC_CHECK(is_another(epilogue, true) && !is_another(epilogue, false));
    }
    MULTIPROC_CHECK(!is_another(Epilogue::Relu, true));
    MULTIPROC_CHECK(second_use(x).is_same(x));
  });
}

/// Three uses of an output, of which one or two have a gradient.
TEST(BatchNormOnADevice, OutputsMayBeUsedOftenAndInVain) {
  run([] {
    const Inputs in({2, 8, 4, at::kFloat, Epilogue::AddRelu});
    const auto gradient_of = [&](const std::vector<double>& factors) {
      BatchNorm layer = make_layer(8);
      with_kernels().place(*layer);
      use_kernels(*layer, with_kernels().kernels());
      const at::Tensor x = in.x.to(stand_in::device()).requires_grad_();
      const at::Tensor y = layer->add_relu(x, in.shortcut.to(stand_in::device()));
      at::Tensor sum = at::zeros({1}, y.options());
      for (const double factor : factors) {
        const at::Tensor again = factor == factors[0] ? y : second_use(y);
        sum = factor == 0 ? sum : sum + (again * factor).sum();
      }
      sum.sum().backward();
      return x.grad().cpu();
    };
    const at::Tensor once = gradient_of({7});
    for (const std::vector<double>& factors :
         {std::vector<double>{1, 2, 4}, {3, 4}, {0, 7}, {7, 0}, {0, 3, 4}, {3, 0, 4}}) {
      MULTIPROC_CHECK(error(gradient_of(factors), once.to(at::kDouble)) < 1e-6);
    }
  });
}

/// The parts of one batch that ranks have; some have none.
void check_ranks(const std::vector<std::int64_t>& batches) {
  const auto ranks = spawn(static_cast<std::uint32_t>(batches.size()), [&](Rank& rank) {
    const process_group::Group group = rank.make_group();
    stand_in::add_backend(*group);
    const auto here = batches.begin() + rank.rank;
    const std::int64_t first = std::accumulate(batches.begin(), here, std::int64_t{0});
    for (const Case& of : batch_norm_cases()) {
      if (!has_exact(of)) {
        continue;
      }
      Answer ours = by_kernels(with_kernels(), of, group, first, *here);
      for (at::Tensor* const of_own_batch : {&ours.weight_gradient, &ours.bias_gradient}) {
        MULTIPROC_CHECK(process_group::all_reduce_sum(group, *of_own_batch).has_value());
      }
      check(ours, exact(of), of, first, *here);
      for (const at::Tensor& statistic : {ours.mean, ours.variance}) {
        at::Tensor of_rank_0 = statistic.clone();
        MULTIPROC_CHECK(process_group::broadcast(group, of_rank_0).has_value());
        MULTIPROC_CHECK(of_rank_0.equal(statistic));
      }
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(BatchNormOnADevice, OverRanksEqualsTheConcatenatedBatch) {
  check_ranks({1, 2});
  check_ranks({2, 0, 1});
}

/// Two layers, so that the second one's gradients are another operation's.
std::int64_t waits_of(const process_group::Group& group, bool kernels) {
  const device::Device device = with_kernels();
  BatchNorm first = make_layer(8);
  BatchNorm second = make_layer(8);
  for (BatchNorm* const layer : {&first, &second}) {
    device.place(**layer);
    use_kernels(**layer, kernels ? device.kernels() : nullptr);
    parallel::synchronise_batch_norms(**layer, group);
  }
  const at::Tensor x = torch::randn({2, 8, 4, 4}).contiguous(kChannelsLast).to(stand_in::device()).requires_grad_();
  const std::int64_t before = stand_in::counts().host_waits;
  second->add_relu(first->relu(x), x).sum().backward();
  return stand_in::counts().host_waits - before;
}

TEST(BatchNormOnADevice, DoesNotBlockTheHost) {
  const auto ranks = spawn(2, [](Rank& rank) {
    const process_group::Group group = rank.make_group();
    stand_in::add_backend(*group);
    for (const bool kernels : {false, true}) {
      MULTIPROC_CHECK(waits_of(group, kernels) == 0);
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

/// What a layer makes of x with kernels and without.
void expect_same_bits(const at::Tensor& x, bool training) {
  std::vector<at::Tensor> outputs;
  for (const bool kernels : {true, false}) {
    const device::Device device = with_kernels();
    BatchNorm layer = make_layer(x.size(1));
    layer->train(training);
    layer->to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
    device.place(*layer);
    use_kernels(*layer, kernels ? device.kernels() : nullptr);
    outputs.push_back(layer->relu(x.to(stand_in::device())).detach().cpu());
    outputs.push_back(layer->running_var.cpu());
  }
  MULTIPROC_CHECK(outputs[0].equal(outputs[2]) && outputs[1].equal(outputs[3]));
}

TEST(BatchNormOnADevice, FallsBackToLibTorchForUnsupportedInputs) {
  run([] {
    const at::Tensor x = torch::randn({2, 24, 5, 5});
    expect_same_bits(x, true);  // its layout
    expect_same_bits(x.to(at::kDouble).contiguous(kChannelsLast), true);
    expect_same_bits(x.contiguous(kChannelsLast), false);  // gradients in evaluation
  });
}

TEST(BatchNormOnADevice, EvaluatesWithTheRunningStatistics) {
  run([] {
    const torch::NoGradGuard no_grad;
    const Case of{3, 16, 6, at::kFloat, Epilogue::AddRelu};
    const Inputs in(of);
    const auto evaluate = [&](c10::Device where) {
      BatchNorm layer = make_layer(of.channels);
      layer->running_mean.copy_(torch::linspace(1, 3, of.channels));
      layer->running_var.copy_(torch::linspace(0.5, 2, of.channels));
      layer->eval();
      if (!where.is_cpu()) {
        with_kernels().place(*layer);
        use_kernels(*layer, with_kernels().kernels());
      }
      return layer->add_relu(in.x.to(where), in.shortcut.to(where)).cpu();
    };
    const at::Tensor ours = evaluate(stand_in::device());
    MULTIPROC_CHECK(error(ours, evaluate(at::kCPU).to(at::kDouble)) < 1e-6);
  });
}

TEST(BatchNormOnADevice, DoesNotModifyTheIncomingGradient) {
  run([] {
    for (const Epilogue epilogue : {Epilogue::None, Epilogue::Relu, Epilogue::AddRelu}) {
      const Inputs in({2, 8, 4, at::kFloat, epilogue});
      BatchNorm layer = make_layer(8);
      with_kernels().place(*layer);
      use_kernels(*layer, with_kernels().kernels());
      const at::Tensor x = in.x.to(stand_in::device()).requires_grad_();
      const at::Tensor gradient = in.gradient.to(stand_in::device());
      output_of(layer, epilogue, x, x).backward(gradient);
      MULTIPROC_CHECK(gradient.cpu().equal(in.gradient));
    }
  });
}

}  // namespace
}  // namespace rollcall::model
