#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "runtime/elastic/coordinator_link.h"
#include "runtime/elastic/messages.h"
#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/handshake.h"
#include "tests/support/crowd.h"
#include "tests/support/plain_peer.h"

namespace rollcall::elastic {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
constexpr std::chrono::milliseconds kHeartbeat{60'000};

Clock::time_point soon() { return Clock::now() + std::chrono::seconds(30); }

/// The coordinator of a run of two nodes, its own agent among them, in a loop that the test turns.
struct HostOfTwo {
  explicit HostOfTwo(std::uint32_t max_nodes = 2) {
    Report own = join("test", "here");
    own.join_request->max_nodes = max_nodes;
    be_host({}, own);
  }

  /// The successor of a coordinator that was lost.
  explicit HostOfTwo(const Generation& last) { be_host(last, join_again(last, 1)); }

  void be_host(const Generation& last, const Report& own) {
    Result<rendezvous::Listener> listener = rendezvous::Listener::on_all_addresses(0);
    port = listener->port();
    Policy policy;
    policy.run_id = "test";
    policy.min_nodes = 2;
    policy.max_nodes = own.join_request->max_nodes;
    policy.reunion_timeout = std::chrono::hours(1);
    const auto nonce = [] { return std::string("nonce"); };
    host.emplace(loop, last.number == 0 ? Coordinator(policy, nonce) : Coordinator(policy, nonce, last, Clock::now()),
                 AgentListener{*std::move(listener), seal(), [this](const std::string& line) { told.push_back(line); }},
                 "127.0.0.1", kHeartbeat);
    host->report(own);
  }

  static Report join(const std::string& run_id, const std::string& name) {
    Report report{.kind = Report::Kind::Join, .port = 4711};
    report.join_request = JoinRequest{run_id, 2, 2, {}, Node{name, "", 1, "worker"}};
    return report;
  }

  /// Of a node that has lost the coordinator of `last`.
  static Report join_again(Generation last, std::uint32_t group_rank) {
    Report report = join("test", "");
    report.join_request->node = last.world[group_rank];
    last.group_rank = group_rank;
    report.join_request->last = std::move(last);
    return report;
  }

  static rendezvous::Seal seal(const std::string& drawn = "secret of the test",
                               const std::string& purpose = "elastic") {
    return {rendezvous::Secret::of(drawn, "run"), purpose};
  }

  [[nodiscard]] rendezvous::Socket connected_silently(const rendezvous::Seal& with = seal()) const {
    return {rendezvous::connect_once({"127.0.0.1", port}, soon()).descriptor, rendezvous::End::Client, with};
  }

  /// A connection whose first frame is a hello.
  [[nodiscard]] rendezvous::Socket connected(const rendezvous::Seal& with = seal()) const {
    rendezvous::Socket socket = connected_silently(with);
    socket.frames().queue(to_text(rendezvous::Hello{.role = "agent"}));
    return socket;
  }

  void turn() {
    loop.wait(Clock::now() + std::chrono::milliseconds(20));
    host->tick(Clock::now());
  }

  /// Sends `texts` as far as the host reads them.
  void say(rendezvous::Socket& socket, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      socket.frames().queue(text);
    }
    bool open = true;
    for (int i = 0; i < 2000 && open && socket.frames().unsent() > 0; ++i) {
      open = socket.take_arrived();
      turn();
    }
  }

  /// Sends bytes without encryption, as any peer can.
  void send_unencrypted(const rendezvous::Socket& socket, const std::string& bytes) {
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
  std::vector<std::string> told;
  std::optional<LocalCoordinator> host;
};

/// All bytes that the host sends until it closes the connection.
std::string received_unencrypted(HostOfTwo& two, const rendezvous::Socket& socket) {
  std::string said;
  std::array<char, 4096> piece{};
  for (int i = 0; i < 500; ++i) {
    const ssize_t count = recv(socket.descriptor(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN)) {
      return said;
    }
    said.append(piece.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
    two.turn();
  }
  ADD_FAILURE() << "the host does not hang up";
  return said;
}

TEST(LocalCoordinator, SendsNothingToPeersWithoutTheSecret) {
  HostOfTwo two;
  const std::string before = two.host->coordinator()->fingerprint();
  const std::vector<rendezvous::Seal> others{HostOfTwo::seal("another secret"),
                                             HostOfTwo::seal("secret of the test", "admission")};
  for (const rendezvous::Seal& seal : others) {
    rendezvous::Socket stranger = two.connected(seal);
    two.say(stranger, {to_text(HostOfTwo::join("test", "there"))});
    EXPECT_THAT(received_unencrypted(two, stranger), IsEmpty()) << "the opening, random bytes, has been read before";
  }
  EXPECT_EQ(two.host->coordinator()->fingerprint(), before);
  ASSERT_THAT(two.told, SizeIs(1)) << "an address is named once";
  EXPECT_THAT(two.told.front(), HasSubstr("rejected an agent at 127.0.0.1, which does not know this run's secret"));
}

TEST(LocalCoordinator, SendsNothingToOtherProtocols) {
  HostOfTwo two;
  for (const std::string& bytes : std::vector{std::string(40'000, '\0'), std::string("GET / HTTP/1.1\r\n\r\n"),
                                              encode_frame(to_text(HostOfTwo::join("test", "there")))}) {
    const rendezvous::Socket stranger(rendezvous::connect_once({"127.0.0.1", two.port}, soon()).descriptor);
    two.send_unencrypted(stranger, bytes);
    EXPECT_THAT(received_unencrypted(two, stranger), IsEmpty());
  }
  EXPECT_THAT(two.told, IsEmpty()) << "port scanners are nobody's mistake";
}

TEST(LocalCoordinator, RejectsAnotherUserOfThisHostEvenWithTheSecret) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can be another user";
  }
  HostOfTwo two;
  const std::string before = two.host->coordinator()->fingerprint();
  ASSERT_EQ(seteuid(4711), 0);
  rendezvous::Socket stranger = two.connected();
  ASSERT_EQ(seteuid(0), 0);
  two.say(stranger, {to_text(HostOfTwo::join("test", "there"))});
  bool open = true;
  EXPECT_THAT(two.answers(stranger, open), IsEmpty());
  EXPECT_FALSE(open);
  EXPECT_EQ(two.host->coordinator()->fingerprint(), before);
  ASSERT_THAT(two.told, SizeIs(1));
  EXPECT_THAT(two.told.front(),
              HasSubstr("rejected a process of user 4711, which connected from this host with this run's secret"));
}

TEST(LocalCoordinator, AnswersOnlyTheFirstFrameOfAPeerThatDoesNotJoin) {
  HostOfTwo two;
  rendezvous::Socket stranger = two.connected();
  two.say(stranger, std::vector<std::string>(10'000));
  bool open = true;
  const std::vector<Order> orders = two.answers(stranger, open);
  EXPECT_FALSE(open);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders.front().kind, Order::Kind::Refused);
  rendezvous::Socket agent = two.connected();
  two.say(agent, {to_text(HostOfTwo::join("test", "there"))});
  EXPECT_THAT(two.answers(agent, open), SizeIs(testing::Ge(2U)))
      << "who belongs to the run is told to wait and to begin";
  EXPECT_TRUE(open);
}

TEST(LocalCoordinator, RefusesAReportBeforeTheJoin) {
  HostOfTwo two;
  rendezvous::Socket stranger = two.connected();
  two.say(stranger, {to_text(Report{}), to_text(HostOfTwo::join("test", "there"))});
  bool open = true;
  const std::vector<Order> orders = two.answers(stranger, open);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders.front().kind, Order::Kind::Refused);
  EXPECT_FALSE(open);
}

TEST(LocalCoordinator, IgnoresMessagesAfterARefusal) {
  HostOfTwo two;
  rendezvous::Socket other = two.connected();
  two.say(other, {to_text(HostOfTwo::join("another", "there")), "nonsense", to_text(HostOfTwo::join("test", "there"))});
  bool open = true;
  const std::vector<Order> orders = two.answers(other, open);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_THAT(orders.front().reason, HasSubstr("the run at this endpoint is "));
}

TEST(LocalCoordinator, DoesNotAdmitARefusedPeerLater) {
  HostOfTwo two;
  const std::string before = two.host->coordinator()->fingerprint();
  rendezvous::Socket other = two.connected();
  two.say(other, {to_text(HostOfTwo::join("another", "there")), to_text(HostOfTwo::join("test", "there"))});
  bool open = true;
  EXPECT_THAT(two.answers(other, open), SizeIs(1));
  EXPECT_EQ(two.host->coordinator()->fingerprint(), before);
}

TEST(LocalCoordinator, RefusesAnotherVersionWithAReason) {
  HostOfTwo two;
  rendezvous::Socket other = two.connected_silently();
  two.say(other, {"rollcall 99\nagent\n0\n0\nthere"});
  bool open = true;
  (void)two.answers(other, open);
  EXPECT_FALSE(open);
  EXPECT_TRUE(other.frames().proven()) << "who knows the secret is told why";
}

TEST(LocalCoordinator, DisconnectsAPeerWhoseFirstFrameExceedsTheLimit) {
  HostOfTwo two;
  rendezvous::Socket stranger = two.connected_silently();
  two.say(stranger, {std::string(1 << 20, 'x')});
  bool open = true;
  EXPECT_THAT(two.answers(stranger, open), IsEmpty());
  EXPECT_FALSE(open);
}

TEST(LocalCoordinator, SilentConnectionsDoNotBlockAnAgent) {
  HostOfTwo two;
  std::vector<rendezvous::Socket> silent;
  for (int i = 0; i < 400; ++i) {
    silent.push_back(two.connected_silently());
    two.turn();
  }
  rendezvous::Socket agent = two.connected();
  two.say(agent, {to_text(HostOfTwo::join("test", "there"))});
  bool open = true;
  EXPECT_THAT(two.answers(agent, open), SizeIs(testing::Ge(2U))) << "it is told to wait and to begin";
  EXPECT_TRUE(open);
}

/// Strangers come, and then an agent that says `report`.
void expect_heard_despite_a_crowd(HostOfTwo& two, const Report& report) {
  const std::size_t before = resident_kilobytes();
  const Crowd crowd(two.port, 5000);
  EXPECT_TRUE(crowd.await([&] { two.turn(); }));
  rendezvous::Socket agent = two.connected();
  two.say(agent, {to_text(report)});
  bool open = true;
  EXPECT_THAT(two.answers(agent, open), SizeIs(testing::Ge(2U)));
  EXPECT_TRUE(open);
  EXPECT_LT(resident_kilobytes(), before + 16'384) << "some 256 wait at a time, with 4 KiB each";
}

TEST(LocalCoordinator, FiveThousandForeignConnectionsDoNotBlockAnAgentOrUseMuchMemory) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root may open so many files everywhere";
  }
  HostOfTwo two;
  expect_heard_despite_a_crowd(two, HostOfTwo::join("test", "there"));
  EXPECT_EQ(two.host->coordinator()->phase(), Coordinator::Phase::Running);
}

TEST(LocalCoordinator, FiveThousandForeignConnectionsDoNotBlockTheNodesThatASuccessorWaitsFor) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root may open so many files everywhere";
  }
  Generation last{.number = 1};
  last.world = {
      {"lost", "127.0.0.1", 1, "worker"}, {"here", "127.0.0.1", 1, "worker"}, {"there", "127.0.0.1", 1, "worker"}};
  HostOfTwo successor(last);
  ASSERT_EQ(successor.host->coordinator()->phase(), Coordinator::Phase::Reuniting);
  expect_heard_despite_a_crowd(successor, HostOfTwo::join_again(last, 2));
  EXPECT_EQ(successor.host->coordinator()->phase(), Coordinator::Phase::Stopping) << "two of three are there";
}

TEST(LocalCoordinator, LimitOfPendingConnectionsGrowsWithMaxNodes) {
  HostOfTwo two(/*max_nodes=*/100);
  std::vector<rendezvous::Socket> silent;
  for (int i = 0; i < 300; ++i) {
    silent.push_back(two.connected_silently());
    two.loop.wait(soon());
  }
  bool open = true;
  (void)two.answers(silent.front(), open);
  EXPECT_TRUE(open);
}

TEST(LocalCoordinator, RefusesOlderVersionsWithAReason) {
  for (const char* const older : {"1\n4\nhost", R"({"protocol":"rollcall 5","report":0})"}) {
    HostOfTwo two;
    rendezvous::Socket other = two.connected_silently();
    two.say(other, {older});
    std::optional<std::string> answer;
    for (int i = 0; i < 100 && !answer; ++i) {
      two.turn();
      (void)other.take_arrived();
      answer = other.frames().next();
    }
    ASSERT_TRUE(answer) << older;
    EXPECT_THAT(rendezvous::reason_of_refusal(*answer).value_or(""), HasSubstr("another version of rollcall"));
  }
}

TEST(LocalCoordinator, ReportsAFailedAcceptOnceAndRetriesAfterAHeartbeat) {
  HostOfTwo two;
  rendezvous::Socket agent = two.connected();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);
  close(next);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  for (int i = 0; i < 3; ++i) {
    two.turn();
    two.host->tick(Clock::now() + (i + 1) * kHeartbeat);
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_THAT(two.told, SizeIs(1));
  EXPECT_THAT(two.told.front(), HasSubstr("cannot accept agents: Too many open files"));
  EXPECT_TRUE(two.host->next_tick()) << "it is to listen again";
  two.host->tick(Clock::now() + 5 * kHeartbeat);
  two.say(agent, {to_text(HostOfTwo::join("test", "there"))});
  bool open = true;
  EXPECT_THAT(two.answers(agent, open), SizeIs(testing::Ge(2U)));
}

TEST(LocalCoordinator, DisconnectsAPeerWhoseFirstReportExceedsTheLimit) {
  HostOfTwo two;
  rendezvous::Socket stranger = two.connected();
  two.say(stranger, {std::string(1 << 20, 'x')});
  bool open = true;
  EXPECT_THAT(two.answers(stranger, open), IsEmpty());
  EXPECT_FALSE(open);
}

TEST(LocalCoordinator, LimitsPeersThatSendOnlyAHello) {
  HostOfTwo two;
  std::vector<rendezvous::Socket> silent;
  for (int i = 0; i < 300; ++i) {
    silent.push_back(two.connected());
    two.say(silent.back(), {});
  }
  bool open = true;
  (void)two.answers(silent.front(), open);
  EXPECT_FALSE(open) << "the oldest makes room";
  (void)two.answers(silent.back(), open);
  EXPECT_TRUE(open);
}

TEST(LocalCoordinator, DisconnectsAMemberThatSendsAnInvalidReport) {
  HostOfTwo two;
  rendezvous::Socket agent = two.connected();
  two.say(agent, {to_text(HostOfTwo::join("test", "there"))});
  bool open = true;
  (void)two.answers(agent, open);
  ASSERT_TRUE(open);
  two.say(agent, {"nonsense"});
  (void)two.answers(agent, open);
  EXPECT_FALSE(open);
  EXPECT_THAT(two.host->coordinator()->fingerprint(), HasSubstr("x2")) << "fenced";
}

}  // namespace
}  // namespace rollcall::elastic
