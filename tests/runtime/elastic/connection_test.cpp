#include "runtime/elastic/connection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>

#include "runtime/rendezvous/listener.h"
#include "tests/support/plain_peer.h"

namespace rollcall::elastic {
namespace {

Clock::time_point in_a_while() { return Clock::now() + std::chrono::seconds(30); }

TEST(Connection, BreaksWhenThePeerDoesNotRead) {
  EventLoop loop;
  Result<rendezvous::Listener> listener = rendezvous::Listener::on_all_addresses(0);
  ASSERT_TRUE(listener);
  const rendezvous::Socket deaf(rendezvous::connect_once({"127.0.0.1", listener->port()}, in_a_while()).descriptor);
  Connection connection(loop, *accept_one(listener->descriptor(), in_a_while()), [] {});
  const std::string piece(std::size_t{1} << 20, 'x');
  int sent = 0;
  for (; sent < 100 && !connection.broken(); ++sent) {
    connection.send(piece);
  }
  EXPECT_GE(sent, 8) << "two orders of any length are kept";
  EXPECT_LT(sent, 100);
}

TEST(Connection, ReadsManyFramesInLimitedBatches) {
  EventLoop loop;
  Result<rendezvous::Listener> listener = rendezvous::Listener::on_all_addresses(0);
  ASSERT_TRUE(listener);
  rendezvous::Socket talker(rendezvous::connect_once({"127.0.0.1", listener->port()}, in_a_while()).descriptor);
  std::size_t most = 0;
  std::size_t frames = 0;
  Connection* heard = nullptr;
  Connection connection(loop, *accept_one(listener->descriptor(), in_a_while()), [&] {
    std::size_t now = 0;
    while (heard->next()) {
      ++now;
    }
    most = std::max(most, now);
    frames += now;
  });
  heard = &connection;
  const std::string text(100'000, 'x');
  ASSERT_TRUE(talker.send_frame("", in_a_while()));
  std::string many;
  for (int i = 0; i < 10'000; ++i) {
    many += encode_frame("");
  }
  ASSERT_TRUE(rendezvous::transfer(talker, std::as_bytes(std::span(many)), talker, {}, in_a_while()));
  ASSERT_TRUE(talker.send_frame(text, in_a_while()));
  const Clock::time_point deadline = in_a_while();
  while (frames < 10'002 && Clock::now() < deadline) {
    loop.wait(deadline);
  }
  EXPECT_EQ(frames, 10'002U);
  EXPECT_LE(most, 5000U);
}

}  // namespace
}  // namespace rollcall::elastic
