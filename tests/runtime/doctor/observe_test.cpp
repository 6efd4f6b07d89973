#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "runtime/base/cpu_list.h"
#include "runtime/base/this_process.h"
#include "runtime/base/time_limit.h"
#include "runtime/doctor/observe/observe.h"

namespace rollcall::doctor {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// A temporary folder in place of /sys.
class DoctorObserve : public testing::Test {
 protected:
  DoctorObserve() {
    std::string name = testing::TempDir() + "rollcall-XXXXXX";
    sys = mkdtemp(name.data());
  }
  ~DoctorObserve() override { fs::remove_all(sys); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((sys / path).parent_path());
    std::ofstream(sys / path) << text << "\n";
  }

  fs::path sys;
};

TEST_F(DoctorObserve, FindsGpusByTheirDriversAndIgnoresTheServersDisplay) {
  write("bus/pci/drivers/nvidia/0000:3b:00.0/numa_node", "1");
  write("bus/pci/drivers/nvidia/new_id", "");
  write("devices/0000:86:00.0/numa_node", "0");
  write("devices/0000:86:00.0/vendor", "0x1002");
  write("devices/0000:03:00.0/vendor", "0x1a03");
  fs::create_directories(sys / "class/drm/card0");
  fs::create_directories(sys / "class/drm/card1");
  fs::create_symlink(sys / "devices/0000:86:00.0", sys / "class/drm/card0/device");
  fs::create_symlink(sys / "devices/0000:03:00.0", sys / "class/drm/card1/device");
  const std::vector<Device> gpus = observe_gpus(sys);
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].name, "0000:3b:00.0");
  EXPECT_EQ(gpus[0].numa, 1);
  EXPECT_EQ(gpus[1].name, "0000:86:00.0");
}

/// Four NVIDIA GPUs whose address order differs from their device-file order; the last one cannot be opened.
class DoctorObserveTaskGpus : public DoctorObserve {
 protected:
  DoctorObserveTaskGpus() {
    add("0000:03:00.0", "3", "3", "GPU-aaaa");
    add("0000:44:00.0", "2", "1", "GPU-bbbb");
    add("0000:84:00.0", "1", "-1", "GPU-cccc");
    add("0000:c4:00.0", "0", "2", "GPU-dddd");
    fs::remove(sys / "dev/nvidia0");
    write("dev/nvidiactl", "");
  }

  void add(const std::string& address, const std::string& minor, const std::string& numa, const std::string& uuid) {
    write("proc/driver/nvidia/gpus/" + address + "/information", "Model: \t\t NVIDIA A100\nGPU UUID: \t " + uuid +
                                                                     "\nBus Location: \t " + address +
                                                                     "\nDevice Minor: \t " + minor);
    write("dev/nvidia" + minor, "");
    write("sys/bus/pci/devices/" + address + "/numa_node", numa);
  }

  /// The addresses of what is visible with CUDA_VISIBLE_DEVICES.
  [[nodiscard]] std::vector<std::string> visible(const std::optional<std::string>& devices) const {
    Environment environment;
    if (devices) {
      environment.set("CUDA_VISIBLE_DEVICES", *devices);
    }
    std::vector<std::string> names;
    for (const Device& gpu : observe_task_gpus(environment, sys).visible) {
      names.push_back(gpu.name);
    }
    return names;
  }
};

TEST_F(DoctorObserveTaskGpus, AreTheOpenableOnesInPciAddressOrder) {
  const GpuFacts gpus = observe_task_gpus({}, sys);
  EXPECT_EQ(gpus.openable, 3U);
  ASSERT_EQ(gpus.visible.size(), 3U);
  EXPECT_EQ(gpus.visible[0].name, "0000:03:00.0");
  EXPECT_EQ(gpus.visible[0].numa, 3);
  EXPECT_EQ(gpus.visible[2].name, "0000:84:00.0");
  EXPECT_EQ(gpus.visible[2].numa, -1);
}

TEST_F(DoctorObserveTaskGpus, FollowCudaVisibleDevices) {
  EXPECT_THAT(visible(std::nullopt), SizeIs(3));
  EXPECT_THAT(visible("2, 0"), ElementsAre("0000:84:00.0", "0000:03:00.0"));
  EXPECT_THAT(visible("GPU-bb"), ElementsAre("0000:44:00.0"));
  EXPECT_THAT(visible("MIG-1234"), ElementsAre("MIG-1234"));
  EXPECT_THAT(visible("1,3,0"), ElementsAre("0000:44:00.0"));  // up to the first that there is not
  for (const char* const none : {"", "-1", "NoDevFiles"}) {
    EXPECT_THAT(visible(none), IsEmpty()) << none;
  }
  Environment one;
  one.set("CUDA_VISIBLE_DEVICES", "1");
  EXPECT_EQ(observe_task_gpus(one, sys).openable, 3U);
}

TEST_F(DoctorObserve, FindsAmdGpusByTheirRenderNodes) {
  for (const std::string& number : std::vector<std::string>{"128", "129", "130"}) {
    const std::string address = "0000:d" + number.substr(2) + ":00.0";
    write("devices/" + address + "/vendor", number == "130" ? "0x8086" : "0x1002");
    write("devices/" + address + "/numa_node", "3");
    write("dev/dri/renderD" + number, "");
    fs::create_directories(sys / "sys/class/drm" / ("renderD" + number));
    fs::create_symlink(sys / "devices" / address, sys / "sys/class/drm" / ("renderD" + number) / "device");
  }
  EXPECT_EQ(observe_task_gpus({}, sys).openable, 2U);
  Environment environment;
  environment.set("ROCR_VISIBLE_DEVICES", "1");
  environment.set("CUDA_VISIBLE_DEVICES", "0");
  const GpuFacts gpus = observe_task_gpus(environment, sys);
  ASSERT_EQ(gpus.visible.size(), 1U);  // the first of what ROCm's variable leaves
  EXPECT_EQ(gpus.visible[0].name, "0000:d9:00.0");
  environment.set("ROCR_VISIBLE_DEVICES", "0,1");
  environment.set("HIP_VISIBLE_DEVICES", "1");
  EXPECT_EQ(observe_task_gpus(environment, sys).visible.at(0).name, "0000:d9:00.0");
  EXPECT_EQ(observe_task_gpus(environment, sys).visible.size(), 1U);
  EXPECT_EQ(gpus.visible[0].numa, 3);
  EXPECT_EQ(gpus.openable, 2U);
}

TEST_F(DoctorObserve, NumaNodesAreReadFromTheCpuLists) {
  write("devices/system/node/node0/cpulist", "0-1,4-5");
  write("devices/system/node/node1/cpulist", "2-3,6-7");
  write("devices/system/node/node10/cpulist", "8");
  write("devices/system/node/possible", "0-10");
  EXPECT_THAT(numa_nodes_of({5}, sys), ElementsAre(0));
  EXPECT_THAT(numa_nodes_of({8, 2, 3}, sys), ElementsAre(1, 10));
  EXPECT_THAT(numa_nodes_of({99}, sys), IsEmpty());
}

TEST_F(DoctorObserve, ReadsNumaNodeStateAndRateOfAdapters) {
  write("class/infiniband/mlx5_0/device/numa_node", "0");
  write("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  write("class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)");
  write("class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
  write("class/infiniband/mlx5_1/ports/1/rate", "2.5 Gb/sec (1X SDR)");
  const std::vector<Device> adapters = observe_adapters(sys);
  ASSERT_EQ(adapters.size(), 2U);
  EXPECT_TRUE(adapters[0].active);
  EXPECT_EQ(adapters[0].gigabits, 200);
  EXPECT_EQ(adapters[0].numa, 0);
  EXPECT_FALSE(adapters[1].active);
  EXPECT_EQ(adapters[1].numa, -1);
}

TEST_F(DoctorObserve, AMachineWithoutDevicesHasNone) {
  EXPECT_THAT(observe_gpus(sys), IsEmpty());
  EXPECT_THAT(observe_adapters(sys), IsEmpty());
}

TEST_F(DoctorObserve, InterfaceSpeedIsMinusOneWhenTheKernelDoesNotKnowIt) {
  write("class/net/ib0/speed", "100000");
  write("class/net/eth0/speed", "-1");
  const auto facts =
      observe_interfaces({{"ib0", true, false, {}}, {"eth0", true, false, {}}, {"lo", true, true, {}}}, sys);
  EXPECT_EQ(facts[0].megabits, 100'000);
  EXPECT_EQ(facts[1].megabits, -1);
  EXPECT_EQ(facts[2].megabits, -1);
}

TEST_F(DoctorObserve, HardwareThreadsOfOneCoreAreOneCore) {
  for (const char* cpu : {"0", "4"}) {
    write(std::string("devices/system/cpu/cpu") + cpu + "/topology/thread_siblings_list", "0,4");
  }
  write("devices/system/cpu/cpu1/topology/thread_siblings_list", "1,5");
  write("devices/system/cpu/online", "0-1,4-5");
  EXPECT_THAT(cores_of({0, 4}, sys), ElementsAre(0));
  EXPECT_THAT(cores_of({1, 4}, sys), ElementsAre(0, 1));
  EXPECT_THAT(cores_of({7}, sys), ElementsAre(7));  // what the kernel does not describe counts as a core
  EXPECT_THAT(parse_cpu_list("0-2,8\n"), ElementsAre(0, 1, 2, 8));
  EXPECT_THAT(parse_cpu_list("x,3-,4"), ElementsAre(4));
  EXPECT_FALSE(cpus_of_this_process().empty());
}

TEST_F(DoctorObserve, WriteTestLeavesTheFolderUnchanged) {
  const FolderFacts facts = observe_folder(sys);
  EXPECT_EQ(facts.error, "");
  EXPECT_GT(facts.total_bytes, 0U);
  EXPECT_TRUE(fs::is_empty(sys));
}

TEST_F(DoctorObserve, ReportsWhyAFolderCannotBeWritten) {
  EXPECT_EQ(observe_folder(sys / "absent").error, "No such file or directory");
  EXPECT_NE(observe_folder("/proc").error, "");  // refuses new files to root, too
  EXPECT_EQ(file_system_bytes(sys / "absent"), 0U);
}

TEST_F(DoctorObserve, AVenvMustHaveAPythonThatRuns) {
  constexpr std::chrono::seconds kPatience{60};
  EXPECT_EQ(observe_venv(sys, kPatience).error, "bin/python: No such file or directory");
  write("bin/python", "#!/bin/sh\necho broken >&2; exit 1");
  fs::permissions(sys / "bin/python", fs::perms::owner_all);
  EXPECT_THAT(observe_venv(sys, kPatience).error, HasSubstr("failed: broken"));
  write("bin/python", "#!/bin/sh\necho 3.11.2");
  const VenvFacts facts = observe_venv(sys, kPatience);
  EXPECT_EQ(facts.error, "");
  EXPECT_EQ(facts.version, "3.11.2");
}

TEST(RunWithTimeout, ReturnsTheValueOrNothingAfterTheTimeout) {
  EXPECT_EQ(run_with_timeout(std::chrono::seconds(60), [] { return 7; }), 7);
  auto never = std::make_shared<std::promise<int>>();
  std::shared_future<int> value = never->get_future().share();
  EXPECT_FALSE(run_with_timeout(std::chrono::milliseconds(20), [value] { return value.get(); }));
  never->set_value(1);
}

TEST(DoctorNames, ReverseNameIsEmptyForAnInvalidAddress) { EXPECT_EQ(reverse_name("no address"), ""); }

TEST(DoctorCollectives, AreReadFromTheProgramsOutput) {
  const std::string row =
      R"({"operation":"all_reduce","backend":"gloo","ranks":4,"bytes":1024,"seconds":0.001,"bus_bytes_per_second":5e8,"correct":true})";
  const Collectives good = read_collectives({"rollcall: warning: something\n" + row + "\n", 0, false});
  EXPECT_EQ(good.error, "");
  ASSERT_EQ(good.rows.size(), 1U);
  EXPECT_EQ(good.rows[0].backend, "gloo");
  EXPECT_DOUBLE_EQ(good.rows[0].gigabytes, 0.5);
  EXPECT_EQ(read_collectives({"rollcall: a: b: c; try d\nrollcall: e\n", 69, false}).error, "a: b: c; try d");
  EXPECT_EQ(read_collectives({"{\n", 0, false}).error, "its output cannot be read: {");
  EXPECT_EQ(read_collectives({"", 127, false}).error, "ended with exit code 127 and measured nothing");
  EXPECT_EQ(read_collectives({"", 137, true}).error, "did not end in time");
}

TEST_F(DoctorObserve, FindsTheCollectivesProgramInPath) {
  const fs::path file = fs::path(sys) / "rollcall-bench-collectives";
  std::ofstream(file).close();
  const Environment environment({{"PATH", "/nonexistent::" + file.parent_path().string()}});
  EXPECT_EQ(bench_program(environment), "");  // nobody may run it
  fs::permissions(file, fs::perms::owner_all);
  EXPECT_EQ(bench_program(environment), file);
}

}  // namespace
}  // namespace rollcall::doctor
