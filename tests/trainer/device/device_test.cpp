#include "trainer/device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "tests/support/silent_plugin.h"
#include "trainer/device/cuda/device_uuid.h"
#include "trainer/device/library_variables.h"
#include "trainer/train/devices_of_ranks.h"

namespace rollcall::device {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(DeviceIndex, IsTheLocalRankOrTheOnlyVisibleDevice) {
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(*device_index({.local_rank = rank, .local_world_size = 4}, 4), rank);
    EXPECT_EQ(*device_index({.local_rank = rank, .local_world_size = 4}, 8), rank);
    EXPECT_EQ(*device_index({.local_rank = rank, .local_world_size = 4}, 1), 0U);
  }
}

TEST(DeviceIndex, FewerDevicesThanRanksAreAnErrorOnEveryRank) {
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const auto index = device_index({.asked = "cuda", .local_rank = rank, .local_world_size = 4}, 3);
    ASSERT_FALSE(index) << rank;
    EXPECT_EQ(index.error().kind, ErrorKind::Unavailable);
    EXPECT_EQ(index.error().reason, "4 ranks on this node, and each sees 3 devices");
  }
  EXPECT_THAT(device_index({.asked = "cuda"}, 0).error().reason, HasSubstr("no device is visible"));
}

TEST(DeviceIndex, ErrorAdvisesHowEachTaskSeesAllDevices) {
  EXPECT_THAT(device_index({.local_world_size = 4}, 3).error().action,
              HasSubstr("--gpus-per-node=4 without --gpus-per-task and --gpu-bind"));
}

TEST(DeviceUuid, MatchesTheUuidInNvml) {
  const std::array<unsigned char, 16> bytes{0x8e, 0x4c, 0x1b, 0x7a, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0xff};
  const std::string number = "8e4c1b7a-0001-0203-0405-060708090aff";
  constexpr const char* kWhole = "NVIDIA A100-SXM4-40GB";
  constexpr const char* kInstance = "NVIDIA A100-SXM4-40GB MIG 1g.5gb";
  for (const char* visible : {"", "0,1", "GPU-8e4c1b7a"}) {
    EXPECT_EQ(device_uuid(bytes, kWhole, visible), "GPU-" + number) << visible;
  }
  for (const char* visible : {"", "0", "MIG-8e4c1b7a", "MIG-8e4c1b7a-0001-0203-0405-060708090aff,MIG-other"}) {
    EXPECT_EQ(device_uuid(bytes, kInstance, visible), "MIG-" + number) << visible;
  }
  // Where CUDA tells the GPU's, the name that the user gave.
  EXPECT_EQ(device_uuid(bytes, kInstance, "MIG-11111111-2222"), "MIG-11111111-2222");
  EXPECT_EQ(device_uuid(bytes, kWhole, "MIG-GPU-8e4c1b7a-0001-0203-0405-060708090aff/1/0,0"),
            "MIG-GPU-8e4c1b7a-0001-0203-0405-060708090aff/1/0");
}

TEST(ChooseDevice, IsTheCpuOnRequestOrWithoutGpus) {
  EXPECT_EQ(choose_device({.asked = "cpu", .gpus = 4})->type(), at::kCPU);
  EXPECT_EQ(choose_device({.asked = "auto", .gpus = 0})->type(), at::kCPU);
}

TEST(ChooseDevice, RejectsNamesThatArePaths) {
  for (const char* name : {"", "../x", "a/b", "CUDA", "a.so", "a b"}) {
    const auto device = choose_device({.asked = name});
    ASSERT_FALSE(device) << name;
    EXPECT_EQ(device.error().kind, ErrorKind::Usage);
    EXPECT_THAT(device.error().reason, HasSubstr("is not the name")) << name;
  }
}

TEST(IdleGpusWarning, WarnsThatGpusAreVisibleButUnused) {
  const Device cpu;
  EXPECT_THAT(idle_gpus_warning({.asked = "auto", .gpus = 4}, cpu), HasSubstr("although 4 GPUs are visible"));
  EXPECT_THAT(idle_gpus_warning({.asked = "auto", .gpus = 1}, cpu), HasSubstr("although 1 GPU is visible"));
  EXPECT_EQ(idle_gpus_warning({.asked = "auto", .gpus = 0}, cpu), "");
  EXPECT_EQ(idle_gpus_warning({.asked = "cpu", .gpus = 4}, cpu), "");
}

TEST(MissingKernelsWarning, WarnsThatOwnKernelsAreUnavailable) {
  const Kernels kernels{};
  const Plugin without = testing_support::silent_plugin(at::kCUDA, nullptr);
  const Plugin with = testing_support::silent_plugin(at::kCUDA, &kernels);
  const Plugin other = testing_support::silent_plugin(at::kPrivateUse1, nullptr);
  Device gpu(without, 0, {});
  EXPECT_THAT(missing_kernels_warning(gpu), HasSubstr("built without nvcc"));
  gpu.use({.own_kernels = std::nullopt});
  EXPECT_EQ(missing_kernels_warning(gpu), "");
  EXPECT_EQ(missing_kernels_warning(Device(with, 0, {})), "");
  const Device old(with, 0, {.name = "T4", .uuid = "", .bus = "", .without_kernels = "T4 has compute capability 7.5"});
  EXPECT_EQ(old.kernels(), nullptr);
  EXPECT_THAT(missing_kernels_warning(old), HasSubstr("on: T4 has compute capability 7.5, so LibTorch's"));
  EXPECT_EQ(missing_kernels_warning(Device(other, 0, {})), "");
  EXPECT_EQ(missing_kernels_warning(Device()), "");
}

TEST(IdleDevicesWarning, AdvisesOneRankPerDevice) {
  const auto warning = [](std::uint32_t ranks, std::uint32_t visible) {
    return train::idle_devices_warning({.asked = "auto", .local_world_size = ranks}, visible);
  };
  EXPECT_THAT(warning(1, 4), AllOf(HasSubstr("4 devices are visible"), HasSubstr("1 rank on this node uses one"),
                                   HasSubstr("3 are idle"), HasSubstr("srun --ntasks-per-node=4")));
  EXPECT_THAT(warning(2, 8), AllOf(HasSubstr("2 ranks on this node use one each"), HasSubstr("6 are idle")));
  for (const auto& [ranks, visible] : {std::pair{4U, 4U}, {1U, 1U}, {4U, 1U}, {1U, 0U}}) {
    EXPECT_EQ(warning(ranks, visible), "") << ranks << " of " << visible;
  }
}

TEST(MixedDevicesWarning, NamesTheFirstRankOnAnotherModel) {
  EXPECT_EQ(train::mixed_devices_warning({{"a", "H100"}, {"b", "H100"}}), "");
  EXPECT_THAT(train::mixed_devices_warning({{"a", "H100"}, {"b", "H100"}, {"c", "A100"}, {"c", "A100"}}),
              HasSubstr("2 of 4 use H100, but rank 2 on c uses A100"));
}

TEST(HiddenDevicesWarning, AdvisesTheSlurmOptionsThatEnableNvLink) {
  using Ranks = std::vector<train::DeviceOfRank>;
  EXPECT_THAT(
      train::hidden_devices_warning({{"a", "H100", 2}, {"a", "H100", 2}, {"b", "H100", 1}, {"b", "H100", 1}}),
      AllOf(HasSubstr("2 of 4 ranks may not open"), HasSubstr("1 of 2 on b"), HasSubstr("try --gpus-per-node=2")));
  for (const Ranks& well : {Ranks{{"a", "H100", 1}, {"b", "H100", 1}},  // one a node
                            Ranks{{"a", "H100", 4}, {"a", "H100", 4}}, Ranks{{"a", "", 0}, {"a", "", 0}}}) {
    EXPECT_EQ(train::hidden_devices_warning(well), "");
  }
}

TEST(LibraryVariables, TurnOffTheWatchdogOfC10dAndKeepTheUsersValues) {
  const auto value = [](const char* name) {
    const char* const set = std::getenv(name);
    return std::string(set == nullptr ? "" : set);
  };
  setenv("TORCH_NCCL_TEARDOWN_ON_TIMEOUT", "1", 1);
  set_library_variables(/*deterministic=*/false);
  EXPECT_EQ(value("TORCH_NCCL_TEARDOWN_ON_TIMEOUT"), "0");
  EXPECT_EQ(value("TORCH_NCCL_BLOCKING_WAIT"), "0");
  EXPECT_EQ(value("CUBLAS_WORKSPACE_CONFIG"), "");
  set_library_variables(/*deterministic=*/true);
  EXPECT_EQ(value("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
  setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  set_library_variables(/*deterministic=*/true);
  EXPECT_EQ(value("CUBLAS_WORKSPACE_CONFIG"), ":16:8");
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
}

TEST(LibraryVariables, RejectTunableOpWithTf32AndAnOlderLibTorch) {
  const Environment tuned({{"PYTORCH_TUNABLEOP_ENABLED", "1"}});
  const Result<void> refused = check_library_variables(tuned, /*tf32=*/true, /*older=*/true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
  EXPECT_TRUE(check_library_variables(tuned, /*tf32=*/true, /*older=*/false));
  EXPECT_TRUE(check_library_variables(tuned, /*tf32=*/false, /*older=*/true));
  EXPECT_TRUE(check_library_variables(Environment(), /*tf32=*/true, /*older=*/true));
}

TEST(Device, UsesTheRequestedArithmetic) {
  static const Kernels kKernels{};
  static const Plugin kPlugin = testing_support::silent_plugin(at::kCUDA, &kKernels);
  Device gpu(kPlugin, 0, {});
  const at::Context& context = at::globalContext();
  const auto precision = [&](at::Float32Op op) { return context.float32Precision(at::Float32Backend::CUDA, op); };
  const bool benchmark = context.benchmarkCuDNN();
  Device().use({.tf32 = true, .deterministic = true});
  EXPECT_EQ(context.benchmarkCuDNN(), benchmark);  // it is nobody's
  EXPECT_FALSE(context.deterministicCuDNN());
  EXPECT_EQ(Device().kernels(), nullptr);
  gpu.use({.tf32 = true});  // settings tf32, deterministic, own-kernels
  EXPECT_EQ(gpu.kernels(), &kKernels);
  gpu.use({.own_kernels = std::nullopt});
  EXPECT_EQ(gpu.kernels(), nullptr);
  EXPECT_EQ(precision(at::Float32Op::MATMUL), at::Float32Precision::TF32);
  EXPECT_EQ(precision(at::Float32Op::CONV), at::Float32Precision::TF32);
  EXPECT_TRUE(context.benchmarkCuDNN());
  EXPECT_FALSE(context.deterministicCuDNN() || context.deterministicAlgorithms());
  gpu.use({.tf32 = false, .deterministic = true});
  EXPECT_EQ(precision(at::Float32Op::MATMUL), at::Float32Precision::IEEE);
  EXPECT_EQ(precision(at::Float32Op::CONV), at::Float32Precision::IEEE);
  EXPECT_FALSE(context.benchmarkCuDNN());
  EXPECT_TRUE(context.deterministicCuDNN() && context.deterministicAlgorithms());
  gpu.use({});
}

}  // namespace
}  // namespace rollcall::device
