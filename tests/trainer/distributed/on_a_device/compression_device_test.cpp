// Gradients that are reduced in 16 bits, rounded and divided by the project's own kernel.

#include <gtest/gtest.h>

#include "tests/support/multiproc.h"
#include "tests/support/stand_in_device.h"
#include "trainer/distributed/ddp/data_parallel.h"

namespace rollcall::parallel {
namespace {

using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::report;
using testing_support::spawn;
namespace stand_in = testing_support::stand_in;

struct WeightImpl : torch::nn::Module {
  WeightImpl() { weight = register_parameter("weight", torch::zeros({1001}).to(stand_in::device())); }
  at::Tensor weight;
};

/// The average of gradients that differ from rank to rank.
at::Tensor average(const process_group::Group& group, const at::Tensor& mine, at::ScalarType type,
                   const device::Kernels* kernels) {
  const auto module = std::make_shared<WeightImpl>();
  auto made = DataParallel::create(module, group, {.compression = type, .kernels = kernels});
  MULTIPROC_CHECK(made.has_value());
  DataParallel& replica = **made;
  replica.zero_grad();
  replica.forward([&] { return (module->weight * mine.to(stand_in::device())).sum(); }).backward();
  return module->weight.grad().cpu();
}

void check(Rank& rank) {
  const process_group::Group group = rank.make_group();
  stand_in::add_backend(*group);
  const auto gradients_of = [](std::uint32_t of) {
    return torch::randn({1001}, at::detail::createCPUGenerator(of + 1), at::kFloat);
  };
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    at::Tensor sum = at::zeros({1001}, type);
    for (std::uint32_t i = 0; i < rank.world_size; ++i) {
      sum = sum + (gradients_of(i) * static_cast<float>(1.0 / rank.world_size)).to(type);
    }
    const at::Tensor ours = average(group, gradients_of(rank.rank), type, &stand_in::own_kernels());
    // In whatever order ranks are added up: that rounds to the type.
    const double step = type == at::kHalf ? 1e-3 : 8e-3;
    MULTIPROC_CHECK(ours.allclose(sum.to(at::kFloat), 2 * step, step));
    const at::Tensor of_torch = average(group, gradients_of(rank.rank), type, nullptr);
    if (rank.world_size == 2) {  // by which dividing rounds nothing
      MULTIPROC_CHECK(ours.equal(of_torch) && ours.equal(sum.to(at::kFloat)));
    } else {
      MULTIPROC_CHECK(!ours.equal(of_torch) && ours.allclose(of_torch, 2 * step, step));
    }
  }
}

TEST(CompressedGradients, OnADeviceAreDividedAndRoundedOnceByTheKernels) {
  for (const std::uint32_t ranks : {2U, 3U}) {
    const auto results = spawn(ranks, check);
    EXPECT_TRUE(all_succeeded(results)) << report(results);
  }
}

}  // namespace
}  // namespace rollcall::parallel
