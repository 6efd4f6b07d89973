#include "runtime/base/time_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <string>

namespace rollcall {
namespace {

using namespace std::chrono_literals;

[[noreturn]] void end_with(const std::string& doing, TimeLimit::Seconds patience) {
  const std::string line = doing + " after " + std::to_string(patience.count()) + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(42);
}

void hang() {
  for (;;) {
    ::pause();
  }
}

TEST(TimeLimit, CallsTheHandlerWhenWorkHangs) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        TimeLimit limit(50ms, end_with);
        limit.doing("waits");
        hang();
      },
      testing::ExitedWithCode(42), "waits after 0.05");
}

TEST(TimeLimit, NewLimitCountsFromTheStart) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        TimeLimit limit(1h, end_with);
        limit.set_patience(20ms);
        hang();
      },
      testing::ExitedWithCode(42), "after 0.02");
}

TEST(TimeLimit, DoesNothingWhenWorkEndsInTime) {
  const auto begin = std::chrono::steady_clock::now();
  bool expired = false;
  for (int i = 0; i < 20; ++i) {
    TimeLimit limit(1h, [&](const std::string&, TimeLimit::Seconds) { expired = true; });
    limit.set_patience(2h);
  }
  EXPECT_FALSE(expired);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST(TimeLimit, DestructorStopsItsThread) {
  const auto tasks = [] {
    const std::filesystem::directory_iterator all("/proc/self/task");
    return std::distance(begin(all), end(all));
  };
  const auto before = tasks();
  for (int i = 0; i < 500; ++i) {
    { TimeLimit limit(1h, end_with); }
    ASSERT_EQ(tasks(), before);
  }
}

}  // namespace
}  // namespace rollcall
