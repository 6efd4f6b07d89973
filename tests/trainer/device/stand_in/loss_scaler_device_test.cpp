// The loss scaler of float16 with gradients on a device: bit identical to the CPU.

#include <gtest/gtest.h>
#include <limits>

#include "tests/support/multiproc.h"
#include "tests/support/stand_in_device.h"
#include "trainer/precision/loss_scaler.h"

namespace rollcall::precision {
namespace {

using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::report;
using testing_support::spawn;
namespace stand_in = testing_support::stand_in;

struct Step {
  bool finite = false;
  LossScale state;
  std::vector<at::Tensor> gradients;

  bool operator==(const Step& other) const {
    return finite == other.finite && state == other.state &&
           std::equal(gradients.begin(), gradients.end(), other.gradients.begin(), other.gradients.end(),
                      [](const at::Tensor& a, const at::Tensor& b) { return torch::equal(a, b); });
  }
};

/// Gradients of two types; the third step overflows on ranks that are asked to.
std::vector<Step> steps_on(c10::Device device, const process_group::Group& group, bool overflows) {
  at::Tensor single = torch::ones({5}).to(device).requires_grad_();
  at::Tensor half = torch::ones({3}, at::kHalf).to(device).requires_grad_();
  torch::optim::SGD optimizer({single, half}, torch::optim::SGDOptions(0.1));
  LossScaler scaler(true, {.scale = 1024, .good_steps = 1998});
  std::vector<Step> steps;
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    const double factor = step == 2 && overflows ? std::numeric_limits<double>::infinity() : 0.3 + step;
    const at::Tensor loss = (single * factor).sum() + (half * (1 + step)).sum().to(at::kFloat);
    scaler.scale(loss).backward();
    Step& done = steps.emplace_back();
    done.finite = scaler.unscale(optimizer, group);
    scaler.update();
    done.state = scaler.state();
    if (done.finite) {
      done.gradients = {single.grad().to(at::kCPU), half.grad().to(at::kCPU)};
    }
  }
  return steps;
}

void check_equal_to_cpu(const process_group::Group& group, bool overflows) {
  const std::vector<Step> expected = steps_on(at::kCPU, group, overflows);
  MULTIPROC_CHECK(expected[0].finite && expected[1].finite && !expected[2].finite && expected[3].finite);
  MULTIPROC_CHECK(expected[1].gradients[1].eq(2).all().item<bool>());  // (half * 2).sum()'s, whatever its type
  MULTIPROC_CHECK(expected[1].state.scale == 2048 && expected[2].state.scale == 1024);
  MULTIPROC_CHECK(steps_on(stand_in::device(), group, overflows) == expected);
}

TEST(LossScalerOnADevice, IsBitIdenticalToTheCpu) {
  const auto ranks = spawn(1, [](Rank& /*rank*/) { check_equal_to_cpu(nullptr, true); });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(LossScalerOnADevice, RanksAgreeOverTheBackendOfTheDevice) {
  const auto ranks = spawn(2, [](Rank& rank) {
    const process_group::Group group = rank.make_group();
    stand_in::add_backend(*group);
    check_equal_to_cpu(group, rank.rank == 1);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(LossScalerOnADevice, UnscalesOffloadedGradientsOfALossOnTheDevice) {  // as --cpu-offload has it
  const auto ranks = spawn(1, [](Rank& /*rank*/) {
    LossScaler scaler(true, {.scale = 8, .good_steps = 0});
    const at::Tensor scaled = scaler.scale(torch::full({}, 3.0F).to(stand_in::device()));
    MULTIPROC_CHECK(scaled.device() == stand_in::device());
    MULTIPROC_CHECK(scaled.item<float>() == 24);
    at::Tensor parameter = torch::zeros({2}).requires_grad_();
    parameter.mutable_grad() = torch::tensor({8.0F, 16.0F});
    torch::optim::SGD optimizer({parameter}, torch::optim::SGDOptions(0.1));
    MULTIPROC_CHECK(scaler.unscale(optimizer, nullptr));
    MULTIPROC_CHECK(torch::equal(parameter.grad(), torch::tensor({1.0F, 2.0F})));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::precision
