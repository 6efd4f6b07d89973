// Optimizer steps on the device of the parameters: bit identical to LibTorch's optimizers on the CPU, and skipped if
// the device found non-finite gradients.

#include "trainer/optim/device_step.h"

#include <gtest/gtest.h>
#include <cmath>

#include "tests/support/multiproc.h"
#include "tests/support/stand_in_device.h"

namespace rollcall::optim {
namespace {

using testing_support::all_succeeded;
using testing_support::report;
using testing_support::spawn;
namespace stand_in = testing_support::stand_in;

constexpr int kSteps = 5;
constexpr int kLeftOut = 2;

NamedParameters parameters_on(c10::Device device) {
  torch::manual_seed(1);
  NamedParameters named;
  for (const auto& [name, sizes] : {std::pair{"weight", std::vector<std::int64_t>{7, 5}}, {"bias", {7}}}) {
    named.insert(name, torch::randn(sizes).to(device).set_requires_grad(true));
  }
  return named;
}

void set_gradients(const NamedParameters& parameters, int step) {
  torch::manual_seed(static_cast<std::uint64_t>(100 + step));
  for (const auto& parameter : parameters) {
    parameter.value().mutable_grad() = torch::randn(parameter.value().sizes()).to(parameter.value().device());
  }
}

void give(DeviceStep& step, const at::Tensor& non_finite) {
  step.begin();
  step.enqueue(non_finite);
  step.count_step();
}

/// Parameters and state, by name, after some steps of which the host leaves one out, on the CPU; or the device does.
std::map<std::string, at::Tensor> outcome(const OptimizerOptions& options, c10::Device device) {
  const NamedParameters parameters = parameters_on(device);
  auto optimizer = *std::move(make_optimizer(options, parameters));
  std::optional<DeviceStep> on_device;
  if (!device.is_cpu()) {
    on_device.emplace(*optimizer);
  }
  for (int step = 0; step < kSteps; ++step) {
    set_gradients(parameters, step);
    set_learning_rate(*optimizer, 0.1 / (step + 1), rate_factors_of_groups(options, parameters));
    const bool left_out = step == kLeftOut;
    if (on_device) {
      give(*on_device, torch::full({1}, left_out ? 1 : 0, at::TensorOptions(at::kFloat).device(device)));
    } else if (!left_out) {
      optimizer->step();
    }
  }
  if (on_device) {
    on_device->uncount_step();
  }
  std::map<std::string, at::Tensor> all;
  for (const auto& parameter : parameters) {
    all[parameter.key()] = parameter.value().detach().to(at::kCPU);
    kind_of(*optimizer)
        ->state.save(
            *optimizer->state().at(parameter.value().unsafeGetTensorImpl()),
            {.tensor = [&](const std::string& name,
                           const at::Tensor& tensor) { all[parameter.key() + "/" + name] = tensor.to(at::kCPU); },
             .number = [&](const std::string& name,
                           std::int64_t number) { all[parameter.key() + "/" + name] = torch::tensor(number); }});
  }
  return all;
}

void expect_equal(const OptimizerOptions& options, double tolerance = 0) {
  const auto ranks = spawn(1, [&](testing_support::Rank& /*rank*/) {
    const auto here = outcome(options, at::kCPU);
    const auto there = outcome(options, stand_in::device());
    MULTIPROC_CHECK(here.size() == there.size() && here.size() > 2);
    for (const auto& [name, tensor] : here) {
      MULTIPROC_CHECK(tolerance > 0 ? there.at(name).allclose(tensor, tolerance, tolerance)
                                    : there.at(name).equal(tensor));
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(DeviceStep, SgdIsBitIdenticalToTheCpu) {
  expect_equal({.name = "sgd", .learning_rate = 0.1, .weight_decay = 0.01, .momentum = 0.9});
  expect_equal({.name = "sgd", .learning_rate = 0.1, .weight_decay = 0.01, .momentum = 0.9, .nesterov = true});
}

TEST(DeviceStep, EachGroupHasItsRate) {
  for (const std::string name : {"sgd", "adamw", "rmsprop", "lars", "lamb"}) {
    expect_equal({.name = name, .learning_rate = 0.1, .weight_decay = 0.05, .rate_factors = {{"bias", 0.3}}},
                 name == "rmsprop" ? 2e-6 : 0);
  }
}

TEST(DeviceStep, AdamWIsBitIdenticalToTheCpu) {
  expect_equal({.name = "adamw", .learning_rate = 0.1, .weight_decay = 0.05, .beta1 = 0.8, .beta2 = 0.9});
}

TEST(DeviceStep, LarsAndLambAreBitIdenticalToTheCpu) {
  expect_equal({.name = "lars", .learning_rate = 0.1, .weight_decay = 0.05, .trust = 0.1});
  expect_equal({.name = "lamb", .learning_rate = 0.1, .weight_decay = 0.05, .beta1 = 0.8, .beta2 = 0.9});
  for (const std::string name : {"lars", "lamb"}) {  // whose weights have the common rate
    expect_equal({.name = name, .learning_rate = 0.1, .weight_decay = 0});
  }
}

// LibTorch's own RMSprop on CPUs rounds differently than its foreach operators.
TEST(DeviceStep, RmsPropEqualsTheCpu) {
  expect_equal({.name = "rmsprop", .learning_rate = 0.1, .weight_decay = 0.05, .alpha = 0.8}, 2e-6);
  expect_equal({.name = "rmsprop", .learning_rate = 0.1, .momentum = 0}, 2e-6);
}

TEST(DeviceStep, GradientsThatAreNaNChangeNothingInASkippedFirstStep) {
  const auto ranks = spawn(1, [&](testing_support::Rank& /*rank*/) {
    const auto options = at::TensorOptions(at::kFloat).device(stand_in::device());
    for (const std::string name : {"rmsprop", "lars", "lamb"}) {
      const auto train = [&](bool skips) {
        const NamedParameters parameters = parameters_on(stand_in::device());
        auto optimizer = *std::move(make_optimizer({.name = name, .learning_rate = 0.1}, parameters));
        DeviceStep on_device(*optimizer);
        if (skips) {
          for (const auto& parameter : parameters) {
            parameter.value().mutable_grad() = torch::full_like(parameter.value(), std::nan(""));
          }
          give(on_device, torch::ones({1}, options));
          on_device.uncount_step();
        }
        set_gradients(parameters, 0);
        give(on_device, torch::zeros({1}, options));
        return parameters["weight"].detach().to(at::kCPU);
      };
      MULTIPROC_CHECK(train(true).equal(train(false)));
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(DeviceStep, SkipsAStepOfSgdWithoutMomentum) {
  const auto ranks = spawn(1, [&](testing_support::Rank& /*rank*/) {
    const NamedParameters parameters = parameters_on(stand_in::device());
    auto optimizer = *std::move(make_optimizer({.name = "sgd", .momentum = 0}, parameters));
    DeviceStep on_device(*optimizer);
    give(on_device, torch::ones({1}, at::TensorOptions(at::kFloat).device(stand_in::device())));  // without gradients
    set_gradients(parameters, 0);
    const at::Tensor before = parameters["weight"].detach().to(at::kCPU);
    give(on_device, torch::ones({1}, at::TensorOptions(at::kFloat).device(stand_in::device())));
    on_device.uncount_step();
    MULTIPROC_CHECK(parameters["weight"].detach().to(at::kCPU).equal(before));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(DeviceStep, DoesNotBlockTheHostAfterTheFirstStep) {
  const auto ranks = spawn(1, [&](testing_support::Rank& /*rank*/) {
    for (const std::string name : {"adamw", "rmsprop", "lars", "lamb"}) {
      const NamedParameters parameters = parameters_on(stand_in::device());
      auto optimizer = *std::move(make_optimizer({.name = name}, parameters));
      DeviceStep on_device(*optimizer);
      const at::Tensor finite = torch::zeros({1}, at::TensorOptions(at::kFloat).device(stand_in::device()));
      set_gradients(parameters, 0);
      give(on_device, finite);
      const std::int64_t before = stand_in::counts().host_waits;
      give(on_device, finite);
      MULTIPROC_CHECK(stand_in::counts().host_waits == before);
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::optim
