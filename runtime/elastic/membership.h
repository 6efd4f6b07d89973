#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/contract/exit_codes.h"

namespace rollcall::elastic {

/// A node, represented by its agent, as all agents of a generation know it.
struct Node {
  std::string host = {};
  std::string address = {};  ///< by which other nodes reach it
  std::uint32_t workers = 1;
  std::string role = {};
  std::uint16_t port = 0;  ///< where it listens as a possible successor of the coordinator; 0: it does not listen
  bool operator==(const Node&) const = default;
};

/// The nodes of a world, by group rank. Copies share the data, since a coordinator sends them to thousands of agents.
class Nodes {
 public:
  Nodes() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a conversion
  Nodes(std::vector<Node> nodes) : nodes_(std::make_shared<const std::vector<Node>>(std::move(nodes))) {}
  Nodes(std::initializer_list<Node> nodes) : Nodes(std::vector<Node>(nodes)) {}

  [[nodiscard]] const std::vector<Node>& list() const { return *nodes_; }
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator const std::vector<Node>&() const { return *nodes_; }
  [[nodiscard]] std::size_t size() const { return nodes_->size(); }
  [[nodiscard]] bool empty() const { return nodes_->empty(); }
  [[nodiscard]] const Node& operator[](std::size_t rank) const { return (*nodes_)[rank]; }
  [[nodiscard]] const Node& at(std::size_t rank) const { return nodes_->at(rank); }
  [[nodiscard]] const Node& front() const { return nodes_->front(); }
  [[nodiscard]] auto begin() const { return nodes_->begin(); }
  [[nodiscard]] auto end() const { return nodes_->end(); }
  /// Returns whether both share the same data, without a comparison.
  [[nodiscard]] bool is_same(const Nodes& other) const { return nodes_ == other.nodes_; }
  bool operator==(const Nodes& other) const { return is_same(other) || *nodes_ == *other.nodes_; }

 private:
  std::shared_ptr<const std::vector<Node>> nodes_ = std::make_shared<const std::vector<Node>>();
};

/// The nodes of a generation, more than half of which may continue without its coordinator.
struct Electorate {
  std::uint32_t generation = 0;
  Nodes nodes = {};
};

/// A set of nodes whose workers form one world, from their start to the next change. Two complete generations never
/// share a number, a nonce or a port.
struct Generation {
  std::uint32_t number = 0;      ///< 1, 2, ...; 0: no generation
  std::string nonce = {};        ///< 64 random bits
  std::uint32_t restarts = 0;    ///< number of earlier generations that ended because a worker failed
  std::uint32_t group_rank = 0;  ///< of the receiving node; the only field that differs between nodes
  Nodes world = {};
  std::uint32_t coordinator = 0;  ///< group rank of the coordinator's own node
  /// Earlier generations that have a vote on the coordinator's successor, until all nodes have acknowledged this one.
  std::vector<Electorate> unsettled = {};
  std::string address = {};  ///< MASTER_ADDR
  std::uint16_t port = 0;    ///< MASTER_PORT
  std::string run = {};      ///< the first generation's nonce, which distinguishes runs of the same id
};

/// Longer texts of a cause are cut, so that those of all workers of a node fit into one message.
inline constexpr std::size_t kLongestMessage = 4096;

/// Exit code of a process that a signal ended, minus the signal's number, as in shells.
inline constexpr int kSignalExitCode = 128;

/// Why a worker failed, or a node was lost or left.
struct Cause {
  enum class Kind {
    Failed,     ///< a worker exited with a status other than 0
    Killed,     ///< a signal that no agent sent ended a worker
    Exception,  ///< a worker wrote an error file (torch's @record)
    SetUp,      ///< a worker could not be started
    NodeLost,   ///< an agent is silent or its connection broke
    NodeLeft,   ///< an agent was asked to end
  };
  Kind kind = Kind::Failed;
  std::string host = {};
  std::uint32_t group_rank = 0;
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::int64_t pid = 0;
  int exit_code = 0;                 ///< kSignalExitCode + number for a signal
  int signal = 0;                    ///< 0: none
  std::string message = {};          ///< one line from the error file, or other details
  std::string error_file = {};       ///< path; empty: none
  std::int64_t age_nanoseconds = 0;  ///< time from the event to the report; the nodes' clocks need not agree
};

/// How a run ends.
struct Outcome {
  int exit_code = 0;
  std::optional<Cause> cause = {};  ///< unset after success, a signal, or an end that `reason` explains
  std::string reason = {};          ///< "restarted 3 times", or why there is no cause
  bool own = false;                 ///< concerns this agent alone; never sent by the coordinator
};

/// What an agent sends in order to join.
struct JoinRequest {
  std::string run_id = {};
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::optional<std::uint32_t> node_rank = {};
  Node node = {};
  /// The newest generation that the agent knows, where it lost the coordinator and fails over to its successor;
  /// `group_rank` is the agent's own, or a number above all of them where it is not in that generation.
  std::optional<Generation> last = {};
  std::chrono::milliseconds heartbeat_timeout{2'000};  ///< for how long it promises not to fail over
};

/// A message of an agent to the coordinator.
struct Report {
  enum class Kind { Join, Failed, Stopped, Done, Leave, Alive };
  Kind kind = Kind::Alive;
  std::uint32_t generation = 0;  ///< Failed, Stopped, Done: the generation concerned; Alive: the newest received
  std::uint64_t beat = 0;        ///< Alive: newest heartbeat of the coordinator received
  std::uint16_t port = 0;        ///< Join, Stopped: port kept free on this node for the next generation
  std::optional<JoinRequest> join_request = {};
  std::vector<Cause> causes = {};
};

/// A message of the coordinator to an agent.
struct Order {
  enum class Kind {
    Wait,     ///< the agent belongs to the run, which continues or forms without it, as `generation` if any
    Refused,  ///< the agent does not belong to the run
    Begin,    ///< start workers
    Stop,     ///< stop workers; the answer is Stopped
    End,      ///< stop workers and exit
    World,    ///< the nodes of `generation`; sent once before the first Begin or Wait of it, which omit them
    Alive,
  };
  Kind kind = Kind::Alive;
  Generation generation = {};  ///< Begin; Wait: the newest, which may not contain the node; Stop: its number
  std::uint64_t beat = 0;      ///< Alive: to be acknowledged
  std::uint32_t settled = 0;   ///< Alive: the oldest generation that still has a vote
  std::string reason = {};     ///< Refused, Stop
  bool lost = false;           ///< Stop: workers are gone, so that their peers would wait for them forever
  Outcome outcome = {};        ///< End
};

}  // namespace rollcall::elastic
