#include "runtime/base/this_process.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace rollcall {
namespace {

TEST(ThisProcess, CountsTheCpusThatTheThreadIsBoundTo) {
  const std::uint32_t before = number_of_cpus();
  EXPECT_GE(before, 1U);
  std::uint32_t bound = 0;
  std::thread([&bound] {  // a thread of its own, so that the binding ends with it
    cpu_set_t mine;
    ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &mine)) {
        CPU_SET(cpu, &one);
        break;
      }
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    bound = number_of_cpus();
  })
      .join();
  EXPECT_EQ(bound, 1U);
  EXPECT_EQ(number_of_cpus(), before);
  EXPECT_EQ(cpus_of_this_process().size(), before);
}

}  // namespace
}  // namespace rollcall
