// The rules of CUDA and NCCL for several devices, which the stand-in device enforces, one per test.

#include <c10/core/DeviceGuard.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <thread>

#include "tests/support/multiproc.h"
#include "tests/support/stand_in_device.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/streams.h"

namespace rollcall {
namespace {

using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::report;
using testing_support::spawn;
namespace stand_in = testing_support::stand_in;

using Indices = std::vector<c10::DeviceIndex>;

c10::Device device(c10::DeviceIndex index) { return {c10::DeviceType::PrivateUse1, index}; }

/// In processes of their own that have two devices.
void run(std::uint32_t ranks, const std::function<void(Rank&)>& test) {
  const auto results = spawn(ranks, [&](Rank& rank) {
    ::setenv("STAND_IN_COUNT", "2", 1);
    test(rank);
  });
  EXPECT_TRUE(all_succeeded(results)) << report(results);
}

/// Whether LibTorch's error has these words.
bool refuses(const std::string& words, const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::Error& error) {
    return std::string(error.what()).find(words) != std::string::npos;
  }
  return false;
}

TEST(SeveralDevices, OperatorsRejectTensorsOfDifferentDevices) {
  run(1, [](Rank& /*rank*/) {
    const at::Tensor first = torch::ones({3, 3}).to(device(0));
    const at::Tensor second = torch::ones({3, 3}).to(device(1));
    MULTIPROC_CHECK(first.device() == device(0) && second.device() == device(1));
    for (const std::function<void()>& mixes :
         std::initializer_list<std::function<void()>>{[&] { (void)(first + second); },
                                                      [&] {
                                                        (void)at::cat({first, second});
                                                      },
                                                      [&] { first.div_(second); }, [&] { first.copy_(second); }}) {
      MULTIPROC_CHECK(refuses("Expected all tensors to be on the same device", mixes));
    }
  });
}

TEST(SeveralDevices, OperatorsRunOnTheDeviceOfTheirTensors) {
  run(1, [](Rank& /*rank*/) {
    const at::Tensor there = torch::ones({3}, at::TensorOptions(device(1)));
    const at::Tensor sum = there + there;
    MULTIPROC_CHECK(sum.device() == device(1) && sum.cpu().eq(2).all().item<bool>());
    MULTIPROC_CHECK(stand_in::device() == device(0) && stand_in::contexts() == Indices{1});
  });
}

TEST(SeveralDevices, ThreadsStartOnTheFirstDevice) {
  run(1, [](Rank& /*rank*/) {
    const c10::DeviceGuard guard(device(1));
    const at::Tensor mine = torch::ones({3}, at::TensorOptions(at::kPrivateUse1));
    MULTIPROC_CHECK(mine.device() == device(1) && stand_in::contexts() == Indices{1});
    std::thread([] { (void)current_stream(device(1)); }).join();
    MULTIPROC_CHECK(stand_in::contexts() == Indices{1});
    std::thread([] { (void)new_stream(c10::Device(at::kPrivateUse1)); }).join();
    MULTIPROC_CHECK((stand_in::contexts() == Indices{0, 1}));
  });
}

TEST(SeveralDevices, KernelsRunOnTheCurrentDeviceAndAccessOnlyItsMemory) {
  run(1, [](Rank& /*rank*/) {
    const at::Tensor from = torch::full({8}, 3.0F).to(device(1));
    const at::Tensor scale = torch::full({1}, 2.0F).to(device(1));
    const at::Tensor to = torch::zeros({8}, at::TensorOptions(device(1)));
    const auto launch = [&] {
      using device::kernels::ElementType;
      stand_in::own_kernels().cast_and_scale({.from_type = ElementType::Float32,
                                              .to_type = ElementType::Float32,
                                              .count = 8,
                                              .from = from.const_data_ptr(),
                                              .to = to.mutable_data_ptr(),
                                              .scale = scale.const_data_ptr<float>()});
    };
    MULTIPROC_CHECK(refuses("is given memory of device 1", launch));
    const c10::DeviceGuard guard(device(1));
    launch();
    MULTIPROC_CHECK(to.cpu().eq(6).all().item<bool>());
  });
}

TEST(SeveralDevices, HaveSeparateMemory) {
  run(1, [](Rank& /*rank*/) {
    const at::Tensor there = torch::ones({1 << 20}, at::TensorOptions(device(1)));
    auto* const memory = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(at::kPrivateUse1));
    MULTIPROC_CHECK(memory->getDeviceStats(0).allocated_bytes[0].current == 0);
    MULTIPROC_CHECK(memory->getDeviceStats(1).allocated_bytes[0].current >= 4 << 20);
  });
}

TEST(SeveralDevices, AGroupAcceptsOnlyTensorsOfTheDeviceItWasCreatedOn) {
  run(2, [](Rank& rank) {
    const process_group::Group group = rank.make_group();
    const auto mine = static_cast<c10::DeviceIndex>(rank.rank);
    {
      const c10::DeviceGuard guard(device(mine));
      stand_in::add_backend(*group);
    }
    const auto sum = [&](c10::DeviceIndex index) {
      std::vector<at::Tensor> tensors{torch::ones({3}, at::TensorOptions(device(index)))};
      group->allreduce(tensors)->wait();
      return tensors[0].cpu();
    };
    MULTIPROC_CHECK(refuses("is given tensors of", [&] { (void)sum(static_cast<c10::DeviceIndex>(1 - mine)); }));
    MULTIPROC_CHECK(sum(mine).eq(2).all().item<bool>());
  });
}

}  // namespace
}  // namespace rollcall
