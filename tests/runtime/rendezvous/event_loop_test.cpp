#include "runtime/rendezvous/event_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace rollcall::rendezvous {
namespace {

TEST(EventLoop, ReportsWhyItCannotWait) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);
  close(next);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EventLoop loop;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(loop.problem(), "Too many open files");
  EXPECT_THAT(loop.wait(Clock::now() + std::chrono::seconds(30)), testing::IsEmpty());
}

}  // namespace
}  // namespace rollcall::rendezvous
