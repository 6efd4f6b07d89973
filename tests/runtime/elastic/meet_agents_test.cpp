#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/elastic/coordinator_link.h"
#include "runtime/elastic/messages.h"
#include "runtime/rendezvous/handshake.h"
#include "runtime/rendezvous/listener.h"

namespace rollcall::elastic {
namespace {

using rendezvous::Listener;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Clock::time_point in_half_a_minute() { return Clock::now() + std::chrono::seconds(30); }

Listener any_listener() {
  Result<Listener> made = Listener::on_all_addresses(0);
  EXPECT_TRUE(made);
  return *std::move(made);
}

rendezvous::Seal seal(const std::string& drawn = "secret of the test") {
  return {rendezvous::Secret::of(drawn, "run"), "elastic"};
}

/// An agent; the test acts as its coordinator.
struct TestedAgent {
  TestedAgent() {
    const Listener listener = any_listener();
    const int descriptor = rendezvous::connect_once({"127.0.0.1", listener.port()}, in_half_a_minute()).descriptor;
    coordinator = rendezvous::Socket(accept(listener.descriptor(), nullptr, nullptr), rendezvous::End::Server, seal());
    guest = std::make_unique<RemoteCoordinator>(loop, rendezvous::Socket(descriptor, rendezvous::End::Client, seal()),
                                                std::chrono::minutes(1), std::chrono::minutes(1),
                                                rendezvous::Endpoint{"there", 1});
    Report join{.kind = Report::Kind::Join, .port = 4711};
    join.join_request = JoinRequest{"test", 2, 2, {}, own()};
    guest->report(join);
  }

  static Node own() { return {"here", "10.0.0.2", 4, "trainer"}; }

  static Order begin() {
    Order order{.kind = Order::Kind::Begin};
    order.generation.number = 1;
    order.generation.group_rank = 1;
    order.generation.world = {{"there", "10.0.0.1", 2, "trainer"}, own()};
    order.generation.address = "10.0.0.1";
    order.generation.port = 4711;
    return order;
  }

  void deliver(const std::string& text) {
    send_text(text);
    loop.wait(in_half_a_minute());
  }

  void send_text(const std::string& text) {
    coordinator.frames().queue(text);
    ASSERT_TRUE(coordinator.take_arrived());  // the guest's opening, which what is said waits for, is there
    ASSERT_EQ(coordinator.frames().unsent(), 0U);
  }

  EventLoop loop;
  rendezvous::Socket coordinator;
  std::unique_ptr<RemoteCoordinator> guest;
};

TEST(RemoteCoordinator, ExecutesValidOrders) {
  TestedAgent test;
  test.deliver(to_text(TestedAgent::begin()));
  EXPECT_THAT(test.guest->take_orders(), SizeIs(1));
  EXPECT_FALSE(test.guest->gone());
  Order end{.kind = Order::Kind::End};
  end.outcome = {137, Cause{.kind = Cause::Kind::Killed, .exit_code = 137, .signal = 9}, ""};
  test.deliver(to_text(end));
  EXPECT_THAT(test.guest->take_orders(), SizeIs(1));
  EXPECT_FALSE(test.guest->gone());
}

TEST(RemoteCoordinator, UsesTheNodesOfTheWorldOrderForTheBeginOrder) {
  TestedAgent test;
  Order world = TestedAgent::begin();
  world.kind = Order::Kind::World;
  Order begin = TestedAgent::begin();
  begin.generation.world = {};
  begin.generation.unsettled = {};
  test.deliver(to_text(world));
  EXPECT_THAT(test.guest->take_orders(), IsEmpty());
  test.deliver(to_text(begin));
  const std::vector<Order> orders = test.guest->take_orders();
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders.front().generation.world, world.generation.world);
}

TEST(RemoteCoordinator, RejectsABeginOrderThatDoesNotMatchTheWorldOrder) {
  for (const auto& [number, nonce] : {std::pair(2, "one"), std::pair(1, "other")}) {
    TestedAgent test;
    Order world = TestedAgent::begin();
    world.kind = Order::Kind::World;
    world.generation.nonce = "one";
    test.deliver(to_text(world));
    Order begin = TestedAgent::begin();
    begin.generation.world = {};
    begin.generation.number = static_cast<std::uint32_t>(number);
    begin.generation.nonce = nonce;
    test.deliver(to_text(begin));
    EXPECT_THAT(test.guest->take_orders(), IsEmpty());
    EXPECT_TRUE(test.guest->gone());
  }
}

TEST(RemoteCoordinator, AcceptsTheAddressThatTheCoordinatorSeesWhenNoneIsGiven) {
  TestedAgent test;
  Report join{.kind = Report::Kind::Join};
  join.join_request = JoinRequest{"test", 2, 2, {}, TestedAgent::own()};
  join.join_request->node.address.clear();
  test.guest->report(join);
  test.deliver(to_text(TestedAgent::begin()));
  EXPECT_THAT(test.guest->take_orders(), SizeIs(1));
}

TEST(RemoteCoordinator, RejectsAGenerationThatDoesNotMatchItsNode) {
  const auto refused = [](const auto& spoil) {
    TestedAgent test;
    Order order = TestedAgent::begin();
    spoil(order.generation);
    test.deliver(to_text(order));
    EXPECT_THAT(test.guest->take_orders(), IsEmpty());
    return test.guest->gone().value_or(CoordinatorLoss{}).reason;
  };
  const auto with_node = [&](std::size_t rank, const auto& spoil) {
    return refused([&](Generation& one) {
      std::vector<Node> nodes = one.world;
      spoil(nodes[rank]);
      one.world = std::move(nodes);
    });
  };
  const auto expected = HasSubstr("the process at there:1 is not a rollcall agent of this version");
  EXPECT_THAT(refused([](Generation& one) { one.world = {}; }), expected);
  EXPECT_THAT(refused([](Generation& one) { one.group_rank = 2; }), expected);
  EXPECT_THAT(refused([](Generation& one) { one.group_rank = 0; }), expected) << "another node's place";
  EXPECT_THAT(with_node(1, [](Node& node) { node.workers = 5; }), expected);
  EXPECT_THAT(with_node(1, [](Node& node) { node.address = "10.0.0.3"; }), expected);
  EXPECT_THAT(with_node(0, [](Node& node) { node.workers = 0xffffffff; }), expected) << "ranks would wrap";
  EXPECT_THAT(with_node(0, [](Node& node) { node.workers = 0; }), expected);
  EXPECT_THAT(refused([](Generation& one) { one.address = std::string("a\0b", 3); }), expected);
}

TEST(RemoteCoordinator, RejectsImpossibleExitCodesAndSignals) {
  const auto refused = [](int exit_code, const Cause& cause) {
    TestedAgent test;
    Order order{.kind = Order::Kind::End};
    order.outcome = {exit_code, cause, ""};
    test.deliver(to_text(order));
    return test.guest->take_orders().empty() && test.guest->gone().has_value();
  };
  EXPECT_FALSE(refused(255, {}));
  EXPECT_TRUE(refused(256, {})) << "a shell would see success";
  EXPECT_TRUE(refused(-1, {}));
  EXPECT_TRUE(refused(1, {.exit_code = 512}));
  EXPECT_TRUE(refused(1, {.signal = -3}));
  Order early{.kind = Order::Kind::End};
  early.outcome = {1, Cause{.age_nanoseconds = std::numeric_limits<std::int64_t>::min()}, ""};
  const std::optional<Order> read = parse_order(to_text(early));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->outcome.cause->age_nanoseconds, 0) << "clocks jump; what is computed with it does not overflow";
  EXPECT_FALSE(parse_order(R"({"order":1e99})")) << "no integer";
}

TEST(RemoteCoordinator, RejectsACoordinatorOutsideTheGeneration) {
  Order order = TestedAgent::begin();
  order.generation.coordinator = 1;
  order.generation.unsettled = {{7, {TestedAgent::own()}}};
  order.lost = true;
  const std::optional<Order> read = parse_order(to_text(order));
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->lost);
  EXPECT_EQ(read->generation.coordinator, 1U);
  ASSERT_THAT(read->generation.unsettled, SizeIs(1));
  EXPECT_EQ(read->generation.unsettled[0].generation, 7U);
  EXPECT_EQ(read->generation.unsettled[0].nodes, std::vector<Node>{TestedAgent::own()});
  order.generation.coordinator = 2;
  EXPECT_FALSE(parse_order(to_text(order)));
}

TEST(RemoteCoordinator, IgnoresOrdersAfterAnInvalidMessage) {
  TestedAgent test;
  test.send_text("nonsense");
  test.deliver(to_text(TestedAgent::begin()));
  test.loop.wait(Clock::now() + std::chrono::milliseconds(20));
  EXPECT_THAT(test.guest->take_orders(), IsEmpty());
  EXPECT_TRUE(test.guest->gone());
}

TEST(RemoteCoordinator, NamesBothVersionsWhenAnOlderCoordinatorRefuses) {
  TestedAgent test;
  std::string older =
      to_text(Order{.kind = Order::Kind::Refused, .reason = "this is not a message of a rollcall agent"});
  older.insert(1, R"("protocol":"rollcall run 5",)");
  test.deliver(older);
  const std::vector<Order> orders = test.guest->take_orders();
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_THAT(orders.front().reason,
              HasSubstr("uses rollcall run 5, not rollcall 6: it is another version of rollcall"));
}

TEST(MeetAgents, RefusesAListenerOfAnotherUserOnThisHost) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can be another user";
  }
  ASSERT_EQ(seteuid(4711), 0);
  const Listener foreign = any_listener();  // a socket is of the user who made it
  ASSERT_EQ(seteuid(0), 0);
  LaunchRequest request;
  request.meeting.endpoint = {"127.0.0.1", foreign.port()};
  request.meeting.join_timeout = std::chrono::seconds(20);
  EventLoop loop;
  const Clock::time_point begin = Clock::now();
  const auto met = meet_agents(loop, request, [](const std::string&) {});
  ASSERT_FALSE(met);
  EXPECT_THAT(met.error().message(), HasSubstr("a process of user 4711 listens there"));
  EXPECT_LT(Clock::now() - begin, request.meeting.join_timeout) << "waiting would not help";
}

/// An agent that found a listener of the test's.
struct ConnectedAgent {
  ConnectedAgent() {
    request.meeting.endpoint = {"127.0.0.1", listener.port()};
    request.meeting.host = false;
    request.meeting.join_timeout = std::chrono::minutes(1);
    Result<MeetingResult> met = meet_agents(loop, request, [](const std::string&) {});
    agent = met ? std::move(met->coordinator_link) : nullptr;
    Report join{.kind = Report::Kind::Join, .port = 4711};
    join.join_request = JoinRequest{"test", 2, 2, {}, TestedAgent::own()};
    agent->report(join);
  }

  void turn() {
    loop.wait(Clock::now() + std::chrono::milliseconds(5));
    agent->tick(Clock::now());
  }

  /// Turns until the agent connects; not open where it is gone first.
  rendezvous::Socket accepted(const rendezvous::Seal& with) {
    for (const Clock::time_point deadline = in_half_a_minute(); Clock::now() < deadline && !agent->gone(); turn()) {
      const int descriptor = accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
      if (descriptor >= 0) {
        return {descriptor, rendezvous::End::Server, with};
      }
    }
    return {};
  }

  Listener listener = [] {
    Listener made = any_listener();
    fcntl(made.descriptor(), F_SETFL, O_NONBLOCK);
    return made;
  }();
  LaunchRequest request;
  EventLoop loop;
  std::unique_ptr<CoordinatorLink> agent;
};

TEST(MeetAgents, ReconnectsWhenDisconnectedBeforeTheHandshake) {
  ConnectedAgent test;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(test.accepted(seal()).is_open()) << test.agent->gone()->reason;
  }
  const rendezvous::Seal real{rendezvous::Secret::of(test.request.meeting.secret, "rollcall run"), "elastic"};
  rendezvous::Socket coordinator;
  std::vector<std::string> texts;
  for (const Clock::time_point deadline = in_half_a_minute(); texts.size() < 2 && Clock::now() < deadline;) {
    if (!coordinator.is_open() || !coordinator.take_arrived()) {
      coordinator = test.accepted(real);  // the one before was a look whether anybody listens
      continue;
    }
    while (const std::optional<std::string> text = coordinator.frames().next()) {
      texts.push_back(*text);
    }
    test.turn();
  }
  ASSERT_THAT(texts, SizeIs(testing::Ge(2U)));
  EXPECT_TRUE(rendezvous::parse_hello(texts[0]));
  EXPECT_TRUE(parse_report(texts[1])->join_request) << "it joins";
}

TEST(MeetAgents, EndsSoonWithADifferentSecret) {
  ConnectedAgent test;
  int tries = 0;
  for (; !test.agent->gone() && tries < 1000; ++tries) {
    rendezvous::Socket other = test.accepted(seal("another"));
    while (other.is_open() && !other.frames().broken() && other.take_arrived()) {
      (void)other.frames().next();
      test.turn();
    }
  }
  ASSERT_TRUE(test.agent->gone());
  EXPECT_TRUE(test.agent->gone()->refused);
  EXPECT_THAT(test.agent->gone()->reason, HasSubstr("does not know this run's secret"));
  EXPECT_LT(tries, 20);
}

}  // namespace
}  // namespace rollcall::elastic
