// Light agents, thousands in one process, against the coordinator of a real `rollcall run`: each is a connection that
// joins, keeps its heartbeats and stops when it is told to, without workers. The list of all nodes, which each agent
// gets and a real one reads, is thrown away here: one process would take longer to read all of them than the
// coordinator takes to say it.
//
//   many_agents PORT AGENTS HEARTBEAT_SECONDS SECRET
//
// Prints as JSON the seconds from the first connection until all agents are in a generation, from the loss of one until
// all others were told, and until they are in the next. For benchmarks/elastic/scale.py.

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/elastic/connection.h"
#include "runtime/elastic/messages.h"
#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/handshake.h"

namespace {

using rollcall::elastic::Clock;
using rollcall::elastic::Connection;
using rollcall::elastic::Order;
using rollcall::elastic::Report;

constexpr std::chrono::seconds kPatience{120};
constexpr std::size_t kLongestRead = 1024;  ///< of an order; a longer one is Order::Kind::World

struct Agent {
  std::unique_ptr<Connection> connection;
  std::uint64_t beat = 0;     ///< the newest of the coordinator's
  std::uint32_t begun = 0;    ///< the newest generation that it was told to begin
  std::uint32_t stopped = 0;  ///< the newest that it was told to stop
};

class Agents {
 public:
  /// With the coordinator's own agent one more.
  Agents(std::uint16_t port, std::size_t number, std::chrono::milliseconds heartbeat, const std::string& secret)
      : endpoint_{"127.0.0.1", port},
        seal_{rollcall::rendezvous::Secret::of(secret, "rollcall run"), "elastic"},
        agents_(number) {
    join_request_.run_id = "many";
    join_request_.min_nodes = static_cast<std::uint32_t>(number);
    join_request_.max_nodes = join_request_.min_nodes + 1;
    join_request_.heartbeat_timeout = heartbeat;
    join_request_.node = {.workers = 4, .role = "default"};
  }

  bool join() {
    for (Agent& agent : agents_) {
      const auto attempt = rollcall::rendezvous::connect_once(endpoint_, Clock::now() + kPatience);
      if (attempt.descriptor < 0) {
        return fail(attempt.reason);
      }
      rollcall::rendezvous::Socket socket(attempt.descriptor, rollcall::rendezvous::End::Client, seal_);
      agent.connection = std::make_unique<Connection>(loop_, std::move(socket), [this, &agent] { hear(agent); });
      const std::size_t number = static_cast<std::size_t>(&agent - agents_.data());
      join_request_.node.host = fmt::format("node{:05d}", number);
      join_request_.node.address = fmt::format("127.0.{}.{}", number / 250, 1 + number % 250);
      join_request_.node.port =
          static_cast<std::uint16_t>(32768 + random_() % 28000);  // as a kernel gives it: nobody listens
      agent.connection->send(to_text(rollcall::rendezvous::Hello{.role = "agent"}));
      say(agent, {.kind = Report::Kind::Join, .port = 1, .join_request = join_request_});
      if (number % 16 == 0 && !turn(Clock::now())) {
        return false;
      }
    }
    return true;
  }

  void lose_one() { agents_.pop_back(); }

  template <typename Holds>
  bool wait(Holds holds) {
    const Clock::time_point end = Clock::now() + kPatience;
    while (!std::all_of(agents_.begin(), agents_.end(), holds)) {
      if (Clock::now() > end) {
        return fail("not all agents were told within two minutes");
      }
      if (!turn(Clock::now() + std::chrono::milliseconds(50))) {
        return false;
      }
    }
    return true;
  }

 private:
  bool turn(Clock::time_point until) {
    loop_.wait(until);
    if (Clock::now() >= next_heartbeat_) {
      next_heartbeat_ = Clock::now() + join_request_.heartbeat_timeout / 4;
      for (Agent& agent : agents_) {
        if (agent.connection) {
          say(agent, {.kind = Report::Kind::Alive, .generation = agent.begun});
        }
      }
    }
    return !failed_;
  }

  bool fail(const std::string& reason) {
    fmt::print(stderr, "{}\n", reason);
    failed_ = true;
    return false;
  }

  static void say(Agent& agent, Report report) {
    report.beat = agent.beat;
    agent.connection->send(to_text(report));
  }

  void hear(Agent& agent) {
    while (const std::optional<std::string> text = agent.connection->next()) {
      const auto order = text->size() > kLongestRead ? std::nullopt : rollcall::elastic::parse_order(*text);
      if (order) {
        agent.beat = std::max(agent.beat, order->beat);
        obey(agent, *order);
      }
    }
    if (agent.connection->broken() && !failed_) {
      fail("an agent lost the coordinator");
    }
  }

  void obey(Agent& agent, const Order& order) {
    if (order.kind == Order::Kind::Begin) {
      agent.begun = order.generation.number;
      say(agent, {.kind = Report::Kind::Alive, .generation = agent.begun});
    } else if (order.kind == Order::Kind::Stop) {
      agent.stopped = order.generation.number;
      say(agent, {.kind = Report::Kind::Stopped, .generation = order.generation.number, .port = 1});
    } else if (order.kind == Order::Kind::Refused || order.kind == Order::Kind::End) {
      fail("an agent was sent away: " + order.reason + order.outcome.reason);
    }
  }

  rollcall::rendezvous::Endpoint endpoint_;
  rollcall::rendezvous::Seal seal_;
  rollcall::elastic::JoinRequest join_request_;
  std::mt19937 random_{1};
  Clock::time_point next_heartbeat_ = Clock::now();
  bool failed_ = false;
  rollcall::rendezvous::EventLoop loop_;
  std::vector<Agent> agents_;
};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

bool measure(Agents& agents) {
  const Clock::time_point begun = Clock::now();
  if (!agents.join() || !agents.wait([](const Agent& agent) { return agent.begun == 1; })) {
    return false;
  }
  const double joined = seconds_since(begun);
  agents.lose_one();
  const Clock::time_point lost = Clock::now();
  if (!agents.wait([](const Agent& agent) { return agent.stopped == 1; })) {
    return false;
  }
  const double told = seconds_since(lost);
  if (!agents.wait([](const Agent& agent) { return agent.begun == 2; })) {
    return false;
  }
  fmt::print("{{\"joined_seconds\":{:.4f},\"told_seconds\":{:.4f},\"next_generation_seconds\":{:.4f}}}\n", joined, told,
             seconds_since(lost));
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "usage: many_agents PORT AGENTS HEARTBEAT_SECONDS SECRET\n");
    return 64;
  }
  mallopt(M_MMAP_THRESHOLD, 1 << 26);  // each of these agents is to cost what one in its own process does
  Agents agents(static_cast<std::uint16_t>(std::atoi(argv[1])), static_cast<std::size_t>(std::atoi(argv[2])),
                std::chrono::seconds(std::atoi(argv[3])), argv[4]);
  return measure(agents) ? 0 : 1;
}
