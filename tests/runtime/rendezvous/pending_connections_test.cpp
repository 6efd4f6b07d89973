#include "runtime/rendezvous/pending_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/listener.h"

namespace rollcall::rendezvous {
namespace {

using testing::AllOf;
using testing::Gt;
using testing::Lt;

Seal of_newcomers() { return {Secret::of("drawn", "world"), "test"}; }

TEST(PendingConnections, OneTurnEndsWhileMoreConnectionsAreQueued) {
  constexpr std::size_t kQueue = 300;
  std::size_t longest_queue = 0;
  std::ifstream("/proc/sys/net/core/somaxconn") >> longest_queue;
  if (longest_queue < kQueue) {
    GTEST_SKIP() << "this kernel queues " << longest_queue << " connections";
  }
  const auto own = Listener::on_all_addresses(0);
  ASSERT_TRUE(own);
  const Clock::time_point soon = Clock::now() + std::chrono::seconds(30);
  std::vector<Socket> queue;
  while (queue.size() < kQueue) {
    queue.emplace_back(connect_once({"127.0.0.1", own->port()}, soon).descriptor, End::Client, of_newcomers());
    ASSERT_TRUE(queue.back().is_open());
    queue.back().frames().queue(to_text(Hello{.rank = 1}));
    ASSERT_TRUE(queue.back().flush());
  }
  std::size_t greeted = 0;
  EventLoop loop;
  PendingConnections pending(
      loop, of_newcomers(), 0,
      [&](const Socket& connection, const Hello& hello) {
        greeted += connection.is_open() && hello.rank == 1 ? 1U : 0U;
      },
      [](const RejectedPeer&) {});
  pending.listen(own->descriptor());
  const auto turn = [&] {
    loop.wait(soon);
    EXPECT_EQ(pending.problem(), "");
    for (Socket& one : queue) {
      (void)one.take_arrived();  // who was greeted is closed
    }
  };
  turn();  // openings
  loop.wait(soon);
  EXPECT_THAT(greeted, AllOf(Gt(0U), Lt(kQueue))) << "then the caller looks at its deadline";
  while (greeted < kQueue && Clock::now() < soon) {
    turn();
  }
  EXPECT_EQ(greeted, kQueue);
}

/// Peers that hold all slots have sent an opening and connect again when disconnected; they must not block a rank.
TEST(PendingConnections, AcceptsARankAlthoughOthersHoldAllSlots) {
  constexpr std::size_t kMost = 256;
  const auto own = Listener::on_all_addresses(0);
  ASSERT_TRUE(own);
  const Clock::time_point soon = Clock::now() + std::chrono::seconds(30);
  const auto reconnect = [&] {
    Socket one(connect_once({"127.0.0.1", own->port()}, soon).descriptor, End::Client, of_newcomers());
    EXPECT_TRUE(one.flush());
    return one;
  };
  bool greeted = false;
  EventLoop loop;
  PendingConnections pending(
      loop, of_newcomers(), 0, [&](const Socket&, const Hello&) { greeted = true; }, [](const RejectedPeer&) {});
  pending.listen(own->descriptor());
  std::vector<Socket> holders;
  for (std::size_t i = 0; i < kMost; ++i) {
    holders.push_back(reconnect());
    loop.wait(soon);
  }
  const Clock::time_point settled = Clock::now() + std::chrono::milliseconds(200);
  while (Clock::now() < settled) {
    loop.wait(settled);
  }
  // Its own opening comes after a holder's that was sent away for it: it is the one that has said nothing.
  const int honest = connect_once({"127.0.0.1", own->port()}, soon).descriptor;
  Socket late(honest, End::Client, of_newcomers());
  late.frames().queue(to_text(Hello{.rank = 1}));
  const auto turn = [&] {
    loop.wait(Clock::now() + std::chrono::milliseconds(5));
    for (Socket& holder : holders) {
      if (!holder.take_arrived()) {
        holder = reconnect();
      }
    }
  };
  turn();
  turn();
  ASSERT_TRUE(late.flush());
  bool open = true;
  while (open && !greeted && Clock::now() < soon) {
    turn();
    open = late.take_arrived();
  }
  EXPECT_TRUE(greeted);
}

}  // namespace
}  // namespace rollcall::rendezvous
