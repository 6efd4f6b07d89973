#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/elastic/coordinator.h"
#include "runtime/elastic/member.h"

namespace rollcall::elastic {

/// What may still go wrong: each use costs one.
struct Budget {
  int crashes = 0;
  int pauses = 0;
  int duplicates = 0;
  int failures = 0;
  bool of_any = false;  ///< the coordinator's agent, too, crashes and is stopped; heartbeats are exchanged
};

/// A connection to the coordinator of an agent, and what is on its way in it.
struct Link {
  bool open = false;    // as the coordinator has it
  bool joined = false;  // it has heard the Join
  std::vector<Report> reports;
  std::vector<Order> orders;
};

struct AgentModel {
  Member member;
  bool came = false;
  bool crashed = false;
  bool paused = false;  // SIGSTOP to the agent: its workers go on
  std::string runs;     // which generation its workers are of; empty: none
  std::uint32_t newest = 0;
  bool stopping = false;
  std::size_t follows = 0;                 // whose coordinator it talks with
  std::optional<Coordinator> coordinator;  // its own
  std::vector<Link> links;                 // by agent
  std::vector<bool> fenced;                // by agent: whom its coordinator has given up
};

inline std::string name_of(const Generation& generation) {
  return std::to_string(generation.number) + generation.nonce;
}

class World {
 public:
  World(std::size_t agents, std::uint32_t least, Budget budget)
      : policy_(policy(agents, least)), budget_(budget), agents_(agents) {
    for (AgentModel& agent : agents_) {
      agent.links.resize(agents);
      agent.fenced.resize(agents);
    }
    agents_[0].coordinator.emplace(policy_, nonces(0));
    come(0);
  }

  /// So many join, in their order, before anything else happens.
  void all_come(std::size_t agents) {
    for (std::size_t i = 1; i < agents; ++i) {
      come(i);
      hear(i, 0, true);
    }
    settle();
  }

  /// The worlds after each thing that can happen next, with its name.
  [[nodiscard]] std::vector<std::pair<std::string, World>> successors() const {
    std::vector<std::pair<std::string, World>> all;
    const auto add = [&](std::string name, const std::function<void(World&)>& happen) {
      World next = *this;
      happen(next);
      next.settle();
      all.emplace_back(std::move(name), std::move(next));
    };
    for (std::size_t i = 0; i < agents_.size(); ++i) {
      add_of_agent(i, add);
      if (coordinates(i) && agents_[i].coordinator->next_tick() &&
          agents_[i].coordinator->generation().number < kMostGenerations) {
        add(std::string("time passes for ") + letter(i), [i](World& world) {
          Coordinator& coordinator = *world.agents_[i].coordinator;
          coordinator.tick(world.now_ = *coordinator.next_tick());
        });
      }
    }
    return all;
  }

  /// What must hold and does not; empty: all does.
  [[nodiscard]] std::string violation() const {
    if (!broken_.empty()) {
      return broken_;
    }
    int complete = 0;
    for (const auto& [name, world] : begun_) {
      const bool all_run = std::ranges::all_of(
          world.second, [&, &wanted = name](const Node& node) { return agents_[index_of(node)].runs == wanted; });
      complete += all_run ? 1 : 0;
    }
    return complete > 1 ? "two generations are complete" : "";
  }

  /// Nothing can happen any longer: then every agent that lives has left. Not so where too many generations were formed
  /// to look further.
  [[nodiscard]] std::string stuck() const {
    const bool cut = std::ranges::any_of(agents_, [](const AgentModel& agent) {
      return agent.coordinator && agent.coordinator->next_tick() &&
             agent.coordinator->generation().number >= kMostGenerations;
    });
    if (cut) {
      return "";
    }
    for (std::size_t i = 0; i < agents_.size(); ++i) {
      const AgentModel& agent = agents_[i];
      if (agent.came && !agent.crashed && !agent.paused && agent.member.state() != Member::State::Left) {
        return std::string("agent ") + letter(i) + " waits for ever";
      }
    }
    return "";
  }

  [[nodiscard]] std::string fingerprint() const {
    std::string text;
    for (const int left : {budget_.crashes, budget_.pauses, budget_.duplicates, budget_.failures}) {
      text += static_cast<char>('0' + left);
    }
    for (std::size_t i = 0; i < agents_.size(); ++i) {
      const AgentModel& agent = agents_[i];
      text += std::string("|f") + letter(agent.follows) + (ended(i) ? 'e' : '-');
      for (std::size_t host = 0; host < agents_.size(); ++host) {
        add_fingerprint(i, host, text);
      }
      if (!ended(i)) {
        text += agent.member.fingerprint() + 'r' + agent.runs + std::to_string(agent.newest);
        for (const bool flag : {agent.came, agent.paused, agent.stopping}) {
          text += flag ? '1' : '0';
        }
        text += agent.coordinator ? agent.coordinator->fingerprint() : "";
      }
    }
    return text;
  }

  /// Whether the run goes on at another node than the first.
  [[nodiscard]] bool moved() const {
    return std::ranges::any_of(agents_, [](const AgentModel& agent) {
      return agent.coordinator && agent.follows != 0 && agent.coordinator->phase() == Coordinator::Phase::Running;
    });
  }

  static constexpr std::uint32_t kMostGenerations = 6;

 private:
  static Policy policy(std::size_t agents, std::uint32_t least) {
    Policy policy;
    policy.run_id = "run";
    policy.min_nodes = least;
    policy.max_nodes = static_cast<std::uint32_t>(agents);
    policy.max_restarts = 1;
    return policy;
  }
  static char letter(std::size_t i) { return static_cast<char>('a' + i); }
  static Coordinator::NewNonce nonces(std::size_t i) {
    return [i] { return std::string(1, letter(i)); };
  }
  static std::size_t index_of(const Node& node) { return static_cast<std::size_t>(node.host.front() - 'a'); }

  /// What of a connection may still be heard.
  void add_fingerprint(std::size_t i, std::size_t host, std::string& text) const {
    const Link& link = agents_[i].links[host];
    text += '/';
    if (!ended(host) && i != host) {
      text += link.open ? 'o' : 'x';
      text += link.joined ? 'j' : '-';
      text += agents_[host].fenced[i] ? 'f' : '-';
      for (const Report& report : link.reports) {
        text += '<' + std::to_string(static_cast<int>(report.kind)) + '.' + std::to_string(report.generation);
        text += report.join_request && report.join_request->last ? name_of(*report.join_request->last) : "";
      }
    }
    if (!ended(i) && agents_[i].follows == host) {
      for (const Order& order : link.orders) {
        text += '>' + std::to_string(static_cast<int>(order.kind)) + '.' + name_of(order.generation);
      }
    }
  }

  [[nodiscard]] bool ended(std::size_t i) const {
    return agents_[i].crashed || agents_[i].member.state() == Member::State::Left;
  }
  [[nodiscard]] bool acts(std::size_t i) const { return agents_[i].came && !ended(i) && !agents_[i].paused; }
  /// A coordinator that says and hears something.
  [[nodiscard]] bool coordinates(std::size_t i) const { return agents_[i].coordinator && acts(i); }

  using Add = std::function<void(std::string, const std::function<void(World&)>&)>;

  void add_of_agent(std::size_t i, const Add& add) const {
    const AgentModel& agent = agents_[i];
    const auto name = [i](const char* what) { return std::string(1, letter(i)) + ' ' + what; };
    if (!agent.came) {
      if (!ended(0) && !agents_[0].paused) {
        add(name("comes"), [i](World& world) { world.come(i); });
      }
      return;
    }
    for (std::size_t host = 0; host < agents_.size(); ++host) {
      add_of_link(i, host, add);
    }
    if (agent.crashed) {
      return;
    }
    if (!agent.runs.empty() && !agent.stopping && budget_.failures > 0 && !agent.paused) {
      add(name("has a failure"), [i](World& world) { world.fail(i); });
    }
    if (agent.paused) {
      add(name("goes on"), [i](World& world) { world.agents_[i].paused = false; });
    } else {
      add_of_living(i, name, add);
    }
  }

  /// What the coordinator of `host` hears and sees of agent `i`.
  void add_of_link(std::size_t i, std::size_t host, const Add& add) const {
    const AgentModel& agent = agents_[i];
    const Link& link = agent.links[host];
    const auto name = [&](const char* what) { return std::string(1, letter(i)) + what + letter(host); };
    if (!link.open || !coordinates(host) || agents_[host].coordinator->ended()) {
      return;
    }
    if (!link.reports.empty()) {
      add(name(" is heard by "), [i, host](World& world) { world.hear(i, host, true); });
      if (budget_.duplicates > 0) {
        add(name(" is heard twice by "), [i, host](World& world) { world.hear(i, host, false); });
      }
    }
    if (link.joined && (ended(i) || agent.paused || agent.follows != host)) {
      add(name(" is given up by "), [i, host](World& world) { world.give_up(i, host); });
    }
  }

  void add_of_living(std::size_t i, const std::function<std::string(const char*)>& name, const Add& add) const {
    const AgentModel& agent = agents_[i];
    const std::size_t host = agent.follows;
    const Link& link = agent.links[host];
    if (!link.orders.empty()) {
      add(name("is told"), [i](World& world) { world.tell(i, true); });
      if (budget_.duplicates > 0) {
        add(name("is told twice"), [i](World& world) { world.tell(i, false); });
      }
    }
    if (host != i && agent.member.state() != Member::State::Left) {
      if (!link.open || !coordinates(host)) {
        add(name("hears no more"), [i](World& world) { world.agents_[i].member.coordinator_lost("gone", false); });
      } else if (budget_.of_any && link.joined && link.orders.empty() && link.reports.empty()) {
        add(name("exchanges heartbeats"), [i](World& world) { world.beat(i); });
      }
    }
    if (!agent.runs.empty()) {
      add(name(agent.stopping ? "has stopped" : "is done"), [i](World& world) { world.end_workers(i); });
    }
    const bool may_go = (i != 0 || budget_.of_any) && !ended(i);
    if (budget_.crashes > 0 && may_go) {
      add(name("crashes"), [i](World& world) { world.crash(i); });
    }
    if (budget_.pauses > 0 && may_go) {
      add(name("is stopped"), [i](World& world) {
        world.budget_.pauses -= 1;
        world.agents_[i].paused = true;
      });
    }
  }

  void come(std::size_t i) {
    agents_[i].came = true;
    join(i, 0, std::nullopt);
  }

  void join(std::size_t i, std::size_t host, const std::optional<Generation>& last) {
    agents_[i].follows = host;
    const JoinRequest join_request{
        "run", policy_.min_nodes, policy_.max_nodes, std::nullopt, Node{std::string(1, letter(i)), "", 1, "default"},
        last};
    const Report join{.kind = Report::Kind::Join, .port = 1, .join_request = join_request};
    if (i == host) {
      agents_[i].coordinator->handle_report(i + 1, join, now_);
    } else {
      agents_[i].links[host] = {.open = true, .joined = false, .reports = {join}, .orders = {}};
    }
  }

  void hear(std::size_t i, std::size_t host, bool once) {
    Link& link = agents_[i].links[host];
    const Report report = link.reports.front();
    if (once) {
      link.reports.erase(link.reports.begin());
    } else {
      budget_.duplicates -= 1;
    }
    link.joined = true;
    agents_[host].coordinator->handle_report(i + 1, report, now_);
  }

  void tell(std::size_t i, bool once) {
    AgentModel& agent = agents_[i];
    std::vector<Order>& orders = agent.links[agent.follows].orders;
    const Order order = orders.front();
    if (once) {
      orders.erase(orders.begin());
    } else {
      budget_.duplicates -= 1;
    }
    agent.newest = std::max(agent.newest, order.kind == Order::Kind::Begin ? order.generation.number : 0);
    agent.member.ordered(order);
  }

  /// Both sides' heartbeats, with nothing else on its way.
  void beat(std::size_t i) {
    AgentModel& agent = agents_[i];
    Coordinator& coordinator = *agents_[agent.follows].coordinator;
    coordinator.handle_report(i + 1, {.generation = agent.newest}, now_);
    agent.member.ordered({.settled = coordinator.settled()});
  }

  /// An agent that ended while it belonged to `host` is dead for it; one that is silent may turn to others, or has.
  void give_up(std::size_t i, std::size_t host) {
    Link& link = agents_[i].links[host];
    const bool dead = ended(i) && agents_[i].follows == host;
    link.open = false;
    agents_[host].fenced[i] = true;
    agents_[host].coordinator->lost(i + 1, "silent", dead, now_);
    link.orders.push_back({.kind = Order::Kind::End, .outcome = {69, {}, "lost by the others"}});
  }

  void fail(std::size_t i) {
    budget_.failures -= 1;
    agents_[i].member.worker_failed({.exit_code = 1, .message = "failed"});
  }

  void end_workers(std::size_t i) {
    agents_[i].runs.clear();
    agents_[i].stopping = false;
    agents_[i].member.workers_ended({});
  }

  void crash(std::size_t i) {
    budget_.crashes -= 1;
    agents_[i].crashed = true;
    agents_[i].runs.clear();  // its workers die with it
    agents_[i].coordinator.reset();
  }

  /// Carries what the state machines said to where it goes.
  void settle() {
    bool more = true;
    while (more) {
      more = false;
      for (std::size_t host = 0; host < agents_.size(); ++host) {
        if (agents_[host].coordinator) {
          deliver(host);
        }
      }
      for (std::size_t i = 0; i < agents_.size(); ++i) {
        for (const Action& action : agents_[i].member.take_actions()) {
          more = true;
          perform(i, action);
        }
      }
    }
  }

  void deliver(std::size_t host) {
    for (auto& [id, order] : agents_[host].coordinator->take_orders()) {
      AgentModel& agent = agents_[id - 1];
      check_order(host, id - 1, order);
      if (agent.follows == host && !ended(id - 1) && (id - 1 == host || agent.links[host].open)) {
        agent.links[host].orders.push_back(order);
      }
    }
  }

  void check_order(std::size_t host, std::size_t to, const Order& order) {
    if (order.kind != Order::Kind::Begin) {
      return;
    }
    const std::vector<bool>& fenced = agents_[host].fenced;
    const bool any_fenced =
        std::ranges::any_of(order.generation.world, [&](const Node& node) { return fenced[index_of(node)]; });
    broken_ = fenced[to] || any_fenced ? "a fenced agent is in a later generation" : broken_;
  }

  void perform(std::size_t i, const Action& action) {
    AgentModel& agent = agents_[i];
    switch (action.kind) {
      case Action::Kind::Start:
        broken_ = agent.runs.empty() ? broken_ : "workers start beside others";
        agent.runs = name_of(action.generation);
        agent.stopping = false;
        check_agreement(i, action.generation);
        break;
      case Action::Kind::Stop:
        agent.stopping = true;
        break;
      case Action::Kind::ReportLoss:  // of what the workers' own watchdog does with it, the protocol knows nothing
        break;
      case Action::Kind::Send:
        if (i == agent.follows) {
          agent.coordinator->handle_report(i + 1, action.report, now_);
        } else if (agent.links[agent.follows].open) {
          agent.links[agent.follows].reports.push_back(action.report);
        }
        break;
      case Action::Kind::FailOver:
        turn(i, index_of(action.successor), action.generation);
        break;
      case Action::Kind::Promote:
        agent.coordinator.emplace(policy_, nonces(i), action.generation, now_);
        join(i, i, action.generation);
        break;
      case Action::Kind::Exit:
        broken_ = agent.runs.empty() ? broken_ : "an agent leaves its workers behind";
        break;
    }
  }

  void turn(std::size_t i, std::size_t host, const Generation& last) {
    agents_[i].links[agents_[i].follows].orders.clear();
    if (ended(host)) {
      agents_[i].follows = host;  // so that who was left sees it
      agents_[i].member.coordinator_lost("nobody listens there", false);
    } else {
      join(i, host, last);
    }
  }

  void check_agreement(std::size_t i, const Generation& generation) {
    const auto known =
        begun_.emplace(name_of(generation), std::pair(std::pair(generation.address, generation.port), generation.world))
            .first;
    const bool same = known->second.first == std::pair(generation.address, generation.port) &&
                      known->second.second == generation.world;
    const bool own_place =
        generation.group_rank < generation.world.size() && index_of(generation.world[generation.group_rank]) == i;
    broken_ = same && own_place ? broken_ : "members of a generation disagree";
  }

  Policy policy_;
  Budget budget_;
  std::vector<AgentModel> agents_;
  Clock::time_point now_{};
  std::map<std::string, std::pair<std::pair<std::string, std::uint16_t>, std::vector<Node>>> begun_;
  std::string broken_;
};

}  // namespace rollcall::elastic
