#include "runtime/base/this_process.h"

#include <gtest/gtest.h>
#include <sys/sysinfo.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace rollcall {
namespace {

class MemoryLimit : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/memory-limitXXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& content) const {
    const std::filesystem::path whole = root_ + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << content;
  }

  std::string root_;
};

TEST_F(MemoryLimit, IsTheMachinesMemoryWithoutASmallerCgroupLimit) {
  write("/proc/meminfo", "MemTotal:       1000 kB\nMemFree:  10 kB\n");
  EXPECT_EQ(memory_limit(root_), 1024'000U);
  write("/proc/self/cgroup", "0::/a\n");
  write("/sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_EQ(memory_limit(root_), 1024'000U);
  write("/sys/fs/cgroup/a/memory.max", "9223372036854771712\n");
  EXPECT_EQ(memory_limit(root_), 1024'000U);
}

TEST_F(MemoryLimit, IsTheSmallestLimitOfTheParentCgroups) {
  write("/proc/meminfo", "MemTotal:       1000 kB\n");
  write("/proc/self/cgroup", "0::/slurm/job_1/step_0\n");
  write("/sys/fs/cgroup/slurm/job_1/step_0/memory.max", "max\n");
  write("/sys/fs/cgroup/slurm/job_1/memory.max", "5000\n");
  write("/sys/fs/cgroup/slurm/memory.max", "7000\n");
  EXPECT_EQ(memory_limit(root_), 5000U);
}

TEST_F(MemoryLimit, ReadsCgroupV1) {
  write("/proc/meminfo", "MemTotal:       1000 kB\n");
  write("/proc/self/cgroup", "9:cpu:/b\n4:hugetlb,memory:/slurm/uid_5/job_1\n0::/\n");
  write("/sys/fs/cgroup/memory/slurm/uid_5/job_1/memory.limit_in_bytes", "6000\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(memory_limit(root_), 6000U);
}

TEST_F(MemoryLimit, IsZeroWhenNoFileStatesALimit) { EXPECT_EQ(memory_limit(root_), 0U); }

TEST(MemoryLimitOfThisMachine, IsAtMostThePhysicalMemory) {
  struct sysinfo machine {};
  ASSERT_EQ(sysinfo(&machine), 0);
  EXPECT_GT(memory_limit(), std::uint64_t{64} << 20);
  EXPECT_LE(memory_limit(), std::uint64_t{machine.totalram} * machine.mem_unit);
}

}  // namespace
}  // namespace rollcall
