#include "trainer/metrics/gpu_meter.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace rollcall::metrics {
namespace {

/// tests/support/stand_in_nvml.cpp: two devices, GPU-0 and GPU-1, whose numbers are in a file.
class Gpu : public testing::Test {
 protected:
  Gpu() { ::setenv("STAND_IN_NVML", folder_.file("gpus").c_str(), 1); }
  ~Gpu() override { ::unsetenv("STAND_IN_NVML"); }

  /// "millijoules of both; load, bytes in use, bytes, milliwatts of the first; of the second".
  void write(const std::string& numbers) const { std::ofstream(folder_.file("gpus")) << numbers; }
  [[nodiscard]] static std::optional<GpuMeter> meter(const std::string& uuid, double now) {
    return GpuMeter::of(Nvml::open(ROLLCALL_STAND_IN_NVML), uuid, now);
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(Gpu, IsSelectedByUuid) {
  write("0 1000  10 100 1000 50000  80 200 4000 60000");
  auto second = meter("GPU-1", 5);
  ASSERT_TRUE(second);
  write("0 31000  10 100 1000 50000  90 300 4000 60000");
  const GpuUse use = second->take(7);
  EXPECT_DOUBLE_EQ(use.seconds, 2);
  EXPECT_DOUBLE_EQ(use.load(), 0.9);
  EXPECT_DOUBLE_EQ(use.watts(), 15) << "30 J by its counter, whatever it says of this moment";
  EXPECT_DOUBLE_EQ(use.memory, 300);
  EXPECT_DOUBLE_EQ(use.memory_total, 4000);
  EXPECT_FALSE(meter("GPU-2", 5));
  EXPECT_FALSE(GpuMeter::of(nullptr, "GPU-1", 5));
}

TEST_F(Gpu, WithoutAnEnergyCounterIntegratesItsCurrentPower) {
  write("- -  10 100 1000 50000");
  auto first = meter("GPU-0", 0);
  EXPECT_DOUBLE_EQ(first->take(4).joules, 200);
  write("9000 0  10 100 1000 50000");  // its driver was loaded anew
  EXPECT_DOUBLE_EQ(first->take(5).joules, 50);
  write("7000 0  10 100 1000 25000");
  EXPECT_DOUBLE_EQ(first->take(7).joules, 50);
}

TEST_F(Gpu, MigInstanceHasItsOwnMemoryAndThePowerOfItsGpu) {
  write("0 1000  10 100 1000 50000  80 200 4000 60000  90 70 500 9");
  auto instance = meter("MIG-1", 5);
  ASSERT_TRUE(instance);
  write("0 31000  10 100 1000 50000  90 300 4000 60000  90 80 500 9");
  const GpuUse use = instance->take(7);
  EXPECT_DOUBLE_EQ(use.memory, 80);
  EXPECT_DOUBLE_EQ(use.memory_total, 500);
  EXPECT_DOUBLE_EQ(use.watts(), 15);
  EXPECT_TRUE(std::isnan(use.load())) << "which NVML does not say of instances";
  write("0 -  10 100 1000 50000  90 300 4000 60000  90 80 500 9");
  EXPECT_DOUBLE_EQ(instance->take(8).watts(), 60);
}

TEST_F(Gpu, UnreadableValuesAreNan) {
  write("- -  - - - -");
  auto first = meter("GPU-0", 0);
  ASSERT_TRUE(first);
  const GpuUse use = first->take(1);
  for (const double number : {use.load(), use.watts(), use.memory, use.memory_total}) {
    EXPECT_TRUE(std::isnan(number)) << number;
  }
  write("1000 -  - 100 1000 -");
  EXPECT_TRUE(std::isnan(first->take(2).joules));
  write("3000 -  - 100 1000 -");
  const GpuUse some = first->take(3);
  EXPECT_DOUBLE_EQ(some.watts(), 2);
  EXPECT_DOUBLE_EQ(some.memory, 100);
  EXPECT_TRUE(std::isnan(some.load()));
}

TEST_F(Gpu, SumsToTheMeanLoadAndPeakMemory) {
  GpuUse sum;
  EXPECT_TRUE(std::isnan(sum.load()) && std::isnan(sum.watts()));
  sum += {.seconds = 1, .busy_seconds = 1, .joules = 100, .memory = 70, .memory_total = 80};
  sum += {.seconds = 3, .busy_seconds = 0, .joules = 300, .memory = 60, .memory_total = 80};
  EXPECT_DOUBLE_EQ(sum.load(), 0.25);
  EXPECT_DOUBLE_EQ(sum.watts(), 100);
  EXPECT_DOUBLE_EQ(sum.memory, 70);
  sum += {.seconds = 1, .busy_seconds = std::nan(""), .joules = 1, .memory = std::nan(""), .memory_total = 80};
  EXPECT_TRUE(std::isnan(sum.load()) && std::isnan(sum.memory));
  EXPECT_DOUBLE_EQ(sum.memory_total, 80);
}

}  // namespace
}  // namespace rollcall::metrics
