#include "runtime/elastic/devices.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "tests/support/temporary_folder.h"

namespace rollcall::elastic {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& content = "") {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << content;
}

Environment with(std::map<std::string, std::string, std::less<>> variables) {
  return Environment(std::move(variables));
}

/// A machine's /dev and /sys as the drivers make them.
class Machine : public testing::Test {
 protected:
  std::uint32_t gpus(const Environment& environment = {}) const { return count_gpus(environment, root()); }
  std::uint32_t xpus(const Environment& environment = {}) const { return count_xpus(environment, root()); }
  fs::path root() const { return folder_.path(); }

  void add_nvidia(int number) { write(root() / fmt::format("dev/nvidia{}", number)); }
  void add_amd_node(int number, int simds) {
    write(root() / "dev/kfd");
    write(root() / fmt::format("sys/class/kfd/kfd/topology/nodes/{}/properties", number),
          fmt::format("cpu_cores_count 0\nsimd_count {}\nmem_banks_count 1\n", simds));
  }
  void add_render_node(int number, const std::string& vendor) {
    write(root() / fmt::format("dev/dri/renderD{}", number));
    write(root() / fmt::format("sys/class/drm/renderD{}/device/vendor", number), vendor + "\n");
  }

 private:
  test::TemporaryFolder folder_;
};

TEST(VisibleDevices, ListEndsAtItsFirstInvalidEntry) {
  EXPECT_EQ(visible_devices("0,1,2", 4), 3U);
  EXPECT_EQ(visible_devices(" 2 , 0 ", 4), 2U);
  EXPECT_EQ(visible_devices("0,4,1", 4), 1U);
  EXPECT_EQ(visible_devices("-1,0", 4), 0U);
  EXPECT_EQ(visible_devices("1,1,0", 4), 1U);
  EXPECT_EQ(visible_devices("NoDevFiles", 4), 0U);
  EXPECT_EQ(visible_devices("", 4), 0U);
  EXPECT_EQ(visible_devices("GPU-8e4c,GPU-1b2c,0", 4), 3U);
  EXPECT_EQ(visible_devices("MIG-1b2c,MIG-2c3d", 4), 1U);
  EXPECT_EQ(visible_devices("0", 0), 0U);
}

TEST_F(Machine, WithoutDevicesHasNone) {
  EXPECT_EQ(gpus(), 0U);
  EXPECT_EQ(xpus(), 0U);
  EXPECT_EQ(gpus(with({{"CUDA_VISIBLE_DEVICES", "0,1"}})), 0U);
}

TEST_F(Machine, CountsVisibleNvidiaDeviceFiles) {
  add_nvidia(0);
  add_nvidia(1);
  add_nvidia(7);
  write(root() / "dev/nvidiactl");
  write(root() / "dev/nvidia-uvm");
  EXPECT_EQ(gpus(), 3U);
  EXPECT_EQ(count_nvidia_gpus(with({{"CUDA_VISIBLE_DEVICES", "0,2"}}), root()), 2U);
  EXPECT_EQ(gpus(with({{"CUDA_VISIBLE_DEVICES", "0,2"}})), 2U);
  EXPECT_EQ(gpus(with({{"CUDA_VISIBLE_DEVICES", ""}})), 0U);
  EXPECT_EQ(gpus(with({{"ROCR_VISIBLE_DEVICES", "0"}})), 3U) << "AMD's variable is not NVIDIA's";
}

TEST_F(Machine, CountsAmdTopologyNodesWithSimds) {
  add_amd_node(0, 0);  // a CPU
  add_amd_node(1, 440);
  add_amd_node(2, 440);
  EXPECT_EQ(gpus(), 2U);
  EXPECT_EQ(count_nvidia_gpus({}, root()), 0U);
  EXPECT_EQ(gpus(with({{"ROCR_VISIBLE_DEVICES", "1"}})), 1U);
  EXPECT_EQ(gpus(with({{"HIP_VISIBLE_DEVICES", "0,1"}, {"ROCR_VISIBLE_DEVICES", "1"}})), 1U)
      << "HIP counts what ROCR leaves";
  fs::remove(root() / "dev/kfd");
  EXPECT_EQ(gpus(), 0U) << "a container that was not given them";
}

TEST_F(Machine, CountsIntelRenderNodes) {
  add_render_node(128, "0x8086");
  add_render_node(129, "0x10de");
  add_render_node(130, "0x8086");
  EXPECT_EQ(xpus(), 2U);
  EXPECT_EQ(xpus(with({{"ZE_AFFINITY_MASK", "1"}})), 1U);
  EXPECT_EQ(gpus(), 0U);
}

}  // namespace
}  // namespace rollcall::elastic
