#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/elastic/coordination.h"
#include "runtime/elastic/messages.h"
#include "runtime/rendezvous/connect.h"

namespace rollcall::elastic {
namespace {

using rendezvous::encode_frame;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
constexpr std::chrono::milliseconds kHeartbeat{60'000};

Clock::time_point soon() { return Clock::now() + std::chrono::seconds(30); }

/// The coordinator of a run of two nodes, its own agent among them, in a loop that the test turns.
struct HostOfTwo {
  HostOfTwo() {
    Result<rendezvous::Listener> listener = rendezvous::Listener::on_all_addresses(0);
    port = listener->port();
    Policy policy;
    policy.run_id = "test";
    policy.min_nodes = policy.max_nodes = 2;
    host.emplace(loop, Coordinator(policy, [] { return std::string("nonce"); }), *std::move(listener), "127.0.0.1",
                 kHeartbeat);
    host->report(join("test", "here"));
  }

  static Report join(const std::string& run_id, const std::string& name) {
    Report report{.kind = Report::Kind::Join, .port = 4711};
    report.newcomer = Newcomer{run_id, 2, 2, {}, Node{name, "", 1, "worker"}};
    return report;
  }

  [[nodiscard]] rendezvous::Socket connected() const {
    return rendezvous::Socket(rendezvous::connect_once({"127.0.0.1", port}, soon()).descriptor);
  }

  void turn() {
    loop.wait(Clock::now() + std::chrono::milliseconds(20));
    host->tick(Clock::now());
  }

  /// Says `bytes` as far as the host takes them.
  void say(const rendezvous::Socket& socket, const std::string& bytes) {
    std::size_t said = 0;
    for (int i = 0; i < 2000 && said < bytes.size(); ++i) {
      const ssize_t count =
          send(socket.descriptor(), bytes.data() + said, bytes.size() - said, MSG_NOSIGNAL | MSG_DONTWAIT);
      said += count > 0 ? static_cast<std::size_t>(count) : 0;
      if (count < 0 && errno != EAGAIN) {
        return;
      }
      turn();
    }
  }

  /// All orders until the host ends the connection, or has nothing more to say.
  std::vector<Order> answers(rendezvous::Socket& socket, bool& open) {
    std::vector<Order> orders;
    open = true;
    for (int quiet = 0; quiet < 5 && open; ++quiet) {
      turn();
      open = socket.take_arrived(std::size_t{1} << 30);
      while (const std::optional<std::string> text = socket.frames().next()) {
        orders.push_back(parse_order(*text).value_or(Order{}));
        quiet = 0;
      }
    }
    return orders;
  }

  EventLoop loop;
  std::uint16_t port = 0;
  std::optional<Host> host;
};

TEST(Host, AnswersAStrangersFirstFrameAndNoMore) {
  HostOfTwo two;
  rendezvous::Socket stranger = two.connected();
  two.say(stranger, std::string(40'000, '\0'));  // ten thousand frames
  bool open = true;
  const std::vector<Order> orders = two.answers(stranger, open);
  EXPECT_FALSE(open);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders.front().kind, Order::Kind::Refused);
  rendezvous::Socket agent = two.connected();
  two.say(agent, encode_frame(to_text(HostOfTwo::join("test", "there"))));
  EXPECT_THAT(two.answers(agent, open), SizeIs(testing::Ge(2U)))
      << "who belongs to the run is told to wait and to begin";
  EXPECT_TRUE(open);
}

TEST(Host, HearsNothingOfWhoHasNotJoinedBeforeAJoin) {
  HostOfTwo two;
  rendezvous::Socket stranger = two.connected();
  two.say(stranger, encode_frame(to_text(Report{})) + encode_frame(to_text(HostOfTwo::join("test", "there"))));
  bool open = true;
  const std::vector<Order> orders = two.answers(stranger, open);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders.front().kind, Order::Kind::Refused);
  EXPECT_FALSE(open);
}

TEST(Host, HearsNothingMoreOfWhoIsRefused) {
  HostOfTwo two;
  rendezvous::Socket other = two.connected();
  std::string bytes = encode_frame(to_text(HostOfTwo::join("another", "there")));
  bytes += encode_frame("nonsense") + encode_frame(to_text(HostOfTwo::join("test", "there")));
  two.say(other, bytes);
  bool open = true;
  const std::vector<Order> orders = two.answers(other, open);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_THAT(orders.front().reason, HasSubstr("another run meets here"));
}

TEST(Host, TakesNobodyInWhoWasRefused) {
  HostOfTwo two;
  const std::string before = two.host->coordinator()->fingerprint();
  rendezvous::Socket other = two.connected();
  two.say(other, encode_frame(to_text(HostOfTwo::join("another", "there"))) +
                     encode_frame(to_text(HostOfTwo::join("test", "there"))));
  bool open = true;
  EXPECT_THAT(two.answers(other, open), SizeIs(1));
  EXPECT_EQ(two.host->coordinator()->fingerprint(), before);
}

TEST(Host, AFirstFrameThatIsTooLongIsNotAwaited) {
  HostOfTwo two;
  rendezvous::Socket stranger = two.connected();
  two.say(stranger, encode_frame(std::string(1 << 20, 'x')).substr(0, 64'000));
  bool open = true;
  EXPECT_THAT(two.answers(stranger, open), IsEmpty());
  EXPECT_FALSE(open);
}

TEST(Host, TheSilentMakeRoomForWhoSaysWhoItIs) {
  HostOfTwo two;
  std::vector<rendezvous::Socket> silent;
  for (int i = 0; i < 400; ++i) {
    silent.push_back(two.connected());
    two.turn();
  }
  rendezvous::Socket agent = two.connected();
  two.say(agent, encode_frame(to_text(HostOfTwo::join("test", "there"))));
  bool open = true;
  EXPECT_THAT(two.answers(agent, open), SizeIs(testing::Ge(2U))) << "it is told to wait and to begin";
  EXPECT_TRUE(open);
}

TEST(Host, DropsAMemberThatSaysWhatIsNoReport) {
  HostOfTwo two;
  rendezvous::Socket agent = two.connected();
  two.say(agent, encode_frame(to_text(HostOfTwo::join("test", "there"))));
  bool open = true;
  (void)two.answers(agent, open);
  ASSERT_TRUE(open);
  two.say(agent, encode_frame("nonsense"));
  (void)two.answers(agent, open);
  EXPECT_FALSE(open);
  EXPECT_THAT(two.host->coordinator()->fingerprint(), HasSubstr("x2")) << "fenced";
}

TEST(Connection, BreaksWhereTheOtherEndDoesNotRead) {
  EventLoop loop;
  Result<rendezvous::Listener> listener = rendezvous::Listener::on_all_addresses(0);
  ASSERT_TRUE(listener);
  const rendezvous::Socket deaf(rendezvous::connect_once({"127.0.0.1", listener->port()}, soon()).descriptor);
  Connection connection(loop, *rendezvous::accept_one(listener->descriptor(), soon()), [] {});
  const std::string piece(std::size_t{1} << 20, 'x');
  int sent = 0;
  for (; sent < 100 && !connection.broken(); ++sent) {
    connection.send(piece);
  }
  EXPECT_GE(sent, 8) << "two orders of any length are kept";
  EXPECT_LT(sent, 100);
}

TEST(Connection, TakesALittleAtATimeAndAllInTheEnd) {
  EventLoop loop;
  Result<rendezvous::Listener> listener = rendezvous::Listener::on_all_addresses(0);
  ASSERT_TRUE(listener);
  rendezvous::Socket talker(rendezvous::connect_once({"127.0.0.1", listener->port()}, soon()).descriptor);
  std::size_t most = 0;
  std::size_t frames = 0;
  Connection* heard = nullptr;
  Connection connection(loop, *rendezvous::accept_one(listener->descriptor(), soon()), [&] {
    std::size_t now = 0;
    while (heard->next()) {
      ++now;
    }
    most = std::max(most, now);
    frames += now;
  });
  heard = &connection;
  const std::string text(100'000, 'x');
  ASSERT_TRUE(talker.send_frame("", soon()));
  std::string many;
  for (int i = 0; i < 10'000; ++i) {
    many += encode_frame("");
  }
  ASSERT_TRUE(rendezvous::transfer(talker, std::as_bytes(std::span(many)), talker, {}, soon()));
  ASSERT_TRUE(talker.send_frame(text, soon()));
  const Clock::time_point deadline = soon();
  while (frames < 10'002 && Clock::now() < deadline) {
    loop.wait(deadline);
  }
  EXPECT_EQ(frames, 10'002U);
  EXPECT_LE(most, 5000U);
}

}  // namespace
}  // namespace rollcall::elastic
