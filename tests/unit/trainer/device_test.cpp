#include "trainer/device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rollcall::device {
namespace {

using testing::HasSubstr;

TEST(DeviceIndex, IsTheLocalRankWhereAllAreVisibleAndTheOnlyOneElse) {
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(*device_index({.local_rank = rank, .local_world_size = 4}, 4), rank);
    EXPECT_EQ(*device_index({.local_rank = rank, .local_world_size = 4}, 8), rank);
    EXPECT_EQ(*device_index({.local_rank = rank, .local_world_size = 4}, 1), 0U);
  }
}

TEST(DeviceIndex, FewerDevicesThanRanksAreAnErrorOnAllOfThem) {
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const auto index = device_index({.asked = "cuda", .local_rank = rank, .local_world_size = 4}, 3);
    ASSERT_FALSE(index) << rank;
    EXPECT_EQ(index.error().exit_code, ExitCode::Unavailable);
    EXPECT_EQ(index.error().reason, "4 ranks on this node, and each sees 3 devices");
  }
  EXPECT_THAT(device_index({.asked = "cuda"}, 0).error().reason, HasSubstr("no device is visible"));
}

TEST(ChooseDevice, IsTheCpuWhereThatIsAskedForOrNothingElseIsThere) {
  EXPECT_EQ(choose_device({.asked = "cpu", .gpus = 4})->type(), at::kCPU);
  EXPECT_EQ(choose_device({.asked = "auto", .gpus = 0})->type(), at::kCPU);
}

TEST(ChooseDevice, NamesAreNoPaths) {
  for (const char* name : {"", "../x", "a/b", "CUDA", "a.so", "a b"}) {
    const auto device = choose_device({.asked = name});
    ASSERT_FALSE(device) << name;
    EXPECT_EQ(device.error().exit_code, ExitCode::Usage);
    EXPECT_THAT(device.error().reason, HasSubstr("is not the name")) << name;
  }
}

TEST(IdleGpusWarning, SaysThatATrainingIsSlowerThanItsNode) {
  const Device cpu;
  EXPECT_THAT(idle_gpus_warning({.asked = "auto", .gpus = 4}, cpu), HasSubstr("although 4 GPUs are visible"));
  EXPECT_THAT(idle_gpus_warning({.asked = "auto", .gpus = 1}, cpu), HasSubstr("although 1 GPU is visible"));
  EXPECT_EQ(idle_gpus_warning({.asked = "auto", .gpus = 0}, cpu), "");
  EXPECT_EQ(idle_gpus_warning({.asked = "cpu", .gpus = 4}, cpu), "");
}

}  // namespace
}  // namespace rollcall::device
