#include "trainer/metrics/energy.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace rollcall::metrics {
namespace {

/// A /sys of this test's own.
class Energy : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/energyXXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void write_zone(const std::string& zone, const std::string& name, const std::string& microjoules) const {
    const std::string folder = "sys/class/powercap/" + zone;
    write(folder + "/name", name + "\n");
    write(folder + "/energy_uj", microjoules + "\n");
    write(folder + "/max_energy_range_uj", "262143328850\n");
  }
  [[nodiscard]] EnergyMeter meter() const { return EnergyMeter(nullptr, root_.string()); }

  std::filesystem::path root_;
};

TEST_F(Energy, IsZeroOnANodeWithoutCounters) {
  EnergyMeter none = meter();
  EXPECT_EQ(none.covers(), "");
  EXPECT_EQ(none.take(), 0);
}

TEST_F(Energy, CountsProcessorsAndMemoryOnce) {
  write_zone("intel-rapl:0", "package-0", "1000000");
  write_zone("intel-rapl:0:0", "core", "900000");
  write_zone("intel-rapl:0:1", "dram", "500000");
  write_zone("intel-rapl:1", "package-1", "7000000");
  write_zone("intel-rapl:2", "psys", "9000000");
  write_zone("intel-rapl-mmio:0", "package-0", "1000000");
  EnergyMeter both = meter();
  EXPECT_EQ(both.covers(), "processors and memory");
  EXPECT_EQ(both.take(), 0);
  write_zone("intel-rapl:0", "package-0", "3500000");
  write_zone("intel-rapl:0:0", "core", "3000000");
  write_zone("intel-rapl:0:1", "dram", "750000");
  write_zone("intel-rapl:1", "package-1", "7000001");
  write_zone("intel-rapl:2", "psys", "99000000");
  EXPECT_NEAR(both.take(), 2.5 + 0.25 + 1e-6, 1e-9);
  EXPECT_EQ(both.take(), 0);
}

TEST_F(Energy, ContinuesAfterACounterWrapsAround) {
  write_zone("intel-rapl:0", "package-0", "262143000000");
  EnergyMeter rapl = meter();
  write_zone("intel-rapl:0", "package-0", "1000000");
  EXPECT_NEAR(rapl.take(), 1 + 0.32885, 1e-6);
}

TEST_F(Energy, UsesOnlyTheNodeCounterOnACray) {
  write("sys/cray/pm_counters/energy", "5000 J 1600000000000000 us\n");
  write_zone("intel-rapl:0", "package-0", "1000000");
  EnergyMeter node = meter();
  EXPECT_EQ(node.covers(), "node");
  write("sys/cray/pm_counters/energy", "5150 J 1600000001000000 us\n");
  write_zone("intel-rapl:0", "package-0", "2000000");
  EXPECT_EQ(node.take(), 150);
  write("sys/cray/pm_counters/energy", "20 J 1600000002000000 us\n");  // the node was started anew
  EXPECT_EQ(node.take(), 0);
  write("sys/cray/pm_counters/energy", "25 J 1600000003000000 us\n");
  EXPECT_EQ(node.take(), 5);
}

TEST_F(Energy, IgnoresUnreadableCounters) {
  if (geteuid() == 0) {
    write("sys/class/powercap/intel-rapl:0/name", "package-0\n");  // root may read all that is there
  } else {
    write_zone("intel-rapl:0", "package-0", "1");
    std::filesystem::permissions(root_ / "sys/class/powercap/intel-rapl:0/energy_uj", std::filesystem::perms::none);
  }
  EXPECT_EQ(meter().covers(), "");
}

/// tests/support/stand_in_nvml.cpp: two devices whose counters are in a file.
TEST_F(Energy, SumsOverGpusAndContinuesAfterADriverReload) {
  write_zone("intel-rapl:0", "package-0", "1000000");
  write("gpus", "1000 5000");
  ::setenv("STAND_IN_NVML", (root_ / "gpus").c_str(), 1);
  EnergyMeter all(Nvml::open(ROLLCALL_STAND_IN_NVML), root_.string());
  EXPECT_EQ(all.covers(), "processors and memory, 2 GPUs");
  write("gpus", "2500 5500");
  EXPECT_DOUBLE_EQ(all.take(), 2);
  write("gpus", "100 6000");
  EXPECT_DOUBLE_EQ(all.take(), 0.5);
  write("gpus", "400 6000");
  write_zone("intel-rapl:0", "package-0", "2000000");
  EXPECT_DOUBLE_EQ(all.take(), 1.3);
  ::unsetenv("STAND_IN_NVML");
  EXPECT_EQ(EnergyMeter(Nvml::open("libno-such-library.so.1"), root_.string()).covers(), "processors and memory");
}

TEST_F(Energy, ContinuesAfterACounterDisappears) {
  write_zone("intel-rapl:0", "package-0", "1000000");
  EnergyMeter rapl = meter();
  std::filesystem::remove_all(root_ / "sys");
  EXPECT_EQ(rapl.take(), 0);
  write_zone("intel-rapl:0", "package-0", "3000000");
  EXPECT_EQ(rapl.take(), 2);
}

}  // namespace
}  // namespace rollcall::metrics
