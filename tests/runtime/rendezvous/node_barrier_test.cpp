#include "runtime/rendezvous/node_barrier.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "runtime/job/marker.h"
#include "tests/support/abstract_socket.h"
#include "tests/support/crowd.h"
#include "tests/support/other_user.h"

namespace rollcall::rendezvous {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong{60'000};
constexpr uid_t kAnotherUser = 4711;

/// A barrier that no other test or process has.
std::string own_name() {
  static std::atomic<int> count{0};
  return "node_barrier_test " + std::to_string(getpid()) + " " + std::to_string(count++);
}

NodeBarrier joined(const std::string& name, std::uint32_t local_rank, std::uint32_t local_world_size) {
  Result<NodeBarrier> barrier = NodeBarrier::join(name, local_rank, local_world_size);
  EXPECT_TRUE(barrier) << barrier.error().message();
  return *std::move(barrier);
}

TEST(NodeBarrier, NoRankContinuesBeforeTheLastArrives) {
  const std::string name = own_name();
  constexpr std::uint32_t kRanks = 9;
  for (std::uint32_t last = 0; last < kRanks; ++last) {
    std::atomic<bool> last_came{false};
    std::atomic<std::uint32_t> too_early{0};
    std::promise<void> others_wait;
    std::atomic<std::uint32_t> waiting{0};
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        NodeBarrier barrier = joined(name, rank, kRanks);
        if (rank == last) {
          others_wait.get_future().wait();
          last_came = true;
        } else if (++waiting == kRanks - 1) {
          others_wait.set_value();
        }
        EXPECT_TRUE(barrier.wait(kLong));
        too_early += last_came ? 0 : 1;
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(too_early, 0U) << "last: " << last;
  }
}

TEST(NodeBarrier, IgnoresDatagramsOfOtherUsers) {
  if (!can_become(kAnotherUser)) {
    GTEST_SKIP() << "this process cannot become user " << kAnotherUser;
  }
  const std::string name = own_name();
  NodeBarrier waiting = joined(name, 1, 2);
  const std::string place = fmt::format("rollcall-{}-{:08x}-1", getuid(), job::fnv1a(name));
  const AbstractAddress address(place);
  const auto released_by = [&](uid_t user) {
    const pid_t sender = fork();
    if (sender == 0) {
      const std::uint32_t leader = 0;
      const int descriptor = socket(AF_UNIX, SOCK_DGRAM, 0);
      const bool sent =
          setuid(user) == 0 && sendto(descriptor, &leader, sizeof leader, 0, address.get(), address.length) > 0;
      _exit(sent ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(sender, &status, 0), sender);
    EXPECT_EQ(status, 0);
    return waiting.wait(milliseconds(50));
  };
  EXPECT_FALSE(released_by(kAnotherUser));
  EXPECT_TRUE(released_by(getuid()));
}

TEST(NodeBarrier, FiveThousandDatagramsOfAnotherUserDoNotBlockARank) {
  if (!can_become(kAnotherUser)) {
    GTEST_SKIP() << "this process cannot become user " << kAnotherUser;
  }
  const std::string name = own_name();
  NodeBarrier leader = joined(name, 0, 2);
  const AbstractAddress address(fmt::format("rollcall-{}-{:08x}-0", getuid(), job::fnv1a(name)));
  const auto speak = [&] {
    const std::uint32_t other = 1;
    const int descriptor = socket(AF_UNIX, SOCK_DGRAM, 0);
    const bool sent = setuid(kAnotherUser) == 0 &&
                      sendto(descriptor, &other, sizeof other, 0, address.get(), address.length) > 0;  // waits if full
    return sent ? descriptor : -1;
  };
  const Crowd crowd(speak, 5000);
  std::atomic<bool> released{false};
  std::thread waits([&] {
    EXPECT_TRUE(leader.wait(kLong));
    released = true;
  });
  EXPECT_TRUE(crowd.await());
  EXPECT_FALSE(released);
  EXPECT_TRUE(joined(name, 1, 2).wait(kLong));
  waits.join();
}

TEST(NodeBarrier, WaitsForALateLeader) {
  const std::string name = own_name();
  std::thread other([&] { EXPECT_TRUE(joined(name, 1, 2).wait(kLong)); });
  std::thread leader([&] { EXPECT_TRUE(joined(name, 0, 2).wait(kLong)); });
  other.join();
  leader.join();
}

TEST(NodeBarrier, ANameThatAnotherUserTookDelaysTheOthersUntilTheTimeout) {
  if (!can_become(kAnotherUser)) {
    GTEST_SKIP() << "this process cannot become user " << kAnotherUser;
  }
  const std::string name = own_name();
  const AbstractAddress address(fmt::format("rollcall-{}-{:08x}-0", getuid(), job::fnv1a(name)));
  const auto take = [&] {
    const int descriptor = socket(AF_UNIX, SOCK_DGRAM, 0);
    return setuid(kAnotherUser) == 0 && bind(descriptor, address.get(), address.length) == 0 ? descriptor : -1;
  };
  const Crowd squatter(take, 1);
  ASSERT_TRUE(squatter.await());
  const Result<NodeBarrier> leader = NodeBarrier::join(name, 0, 2);
  ASSERT_FALSE(leader) << "that rank goes on without a barrier";
  EXPECT_EQ(leader.error().kind, ErrorKind::Unavailable);
  EXPECT_FALSE(joined(name, 1, 2).wait(milliseconds(50)));
}

TEST(NodeBarrier, SingleRankDoesNotWait) { EXPECT_TRUE(joined(own_name(), 0, 1).wait(milliseconds(0))); }

TEST(NodeBarrier, WaitEndsAtTheTimeoutWhenARankIsMissing) {
  const std::string name = own_name();
  NodeBarrier leader = joined(name, 0, 3);
  NodeBarrier other = joined(name, 1, 3);
  std::thread waits([&] { EXPECT_FALSE(other.wait(milliseconds(50))); });
  EXPECT_FALSE(leader.wait(milliseconds(50)));
  waits.join();
}

TEST(NodeBarrier, LocalRankCanJoinOnlyOnceUntilItLeaves) {
  const std::string name = own_name();
  {
    const NodeBarrier first = joined(name, 0, 2);
    const Result<NodeBarrier> second = NodeBarrier::join(name, 0, 2);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind, ErrorKind::Unavailable);
  }
  EXPECT_TRUE(NodeBarrier::join(name, 0, 2));
}

}  // namespace
}  // namespace rollcall::rendezvous
