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

/// A node, that is an agent, as all agents of a generation know it.
struct Node {
  std::string host = {};
  std::string address = {};  ///< by which the other nodes reach it
  std::uint32_t workers = 1;
  std::string role = {};
  std::uint16_t port = 0;  ///< where it listens, to be the coordinator's successor; 0: it does not
  bool operator==(const Node&) const = default;
};

/// The nodes of a world, by group rank. Copies share them: a coordinator tells thousands of them.
class Nodes {
 public:
  Nodes() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): it is one
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
  /// A copy of the same, which need not be compared.
  [[nodiscard]] bool is_same(const Nodes& other) const { return nodes_ == other.nodes_; }
  bool operator==(const Nodes& other) const { return is_same(other) || *nodes_ == *other.nodes_; }

 private:
  std::shared_ptr<const std::vector<Node>> nodes_ = std::make_shared<const std::vector<Node>>();
};

/// The nodes of a generation, of which more than half may go on without its coordinator.
struct Electorate {
  std::uint32_t generation = 0;
  Nodes nodes = {};
};

/// A set of nodes whose workers form one world, from their start to the first change. No two generations that
/// are complete have a number, a nonce or a port in common.
struct Generation {
  std::uint32_t number = 0;      ///< 1, 2, ...; 0: none
  std::string nonce = {};        ///< 64 random bits
  std::uint32_t restarts = 0;    ///< how many generations before it ended since a worker failed
  std::uint32_t group_rank = 0;  ///< of the node that is told; the only field that differs between nodes
  Nodes world = {};
  std::uint32_t coordinator = 0;  ///< group rank of the coordinator's own node
  /// Earlier ones that have a say in who succeeds the coordinator, until all nodes have heard of this one.
  std::vector<Electorate> unsettled = {};
  std::string address = {};  ///< MASTER_ADDR
  std::uint16_t port = 0;    ///< MASTER_PORT
  std::string run = {};      ///< the first generation's nonce: tells the run from another one of the same id
};

/// A longer text of a cause is cut, so that those of all workers of a node fit into one message.
inline constexpr std::size_t kLongestMessage = 4096;

/// The exit code of what a signal ended, less the signal's number: shells have it so.
inline constexpr int kSignalExitCode = 128;

/// Why workers ended otherwise than well, or a node is gone.
struct Cause {
  enum class Kind {
    Failed,     ///< a worker ended with another exit status than 0
    Killed,     ///< a signal that no agent sent ended a worker
    Exception,  ///< a worker left an error file: torch's @record
    SetUp,      ///< a worker could not be started
    NodeLost,   ///< an agent is silent or its connection broke
    NodeLeft,   ///< an agent was told to end
  };
  Kind kind = Kind::Failed;
  std::string host = {};
  std::uint32_t group_rank = 0;
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::int64_t pid = 0;
  int exit_code = 0;                 ///< kSignalExitCode + number for a signal
  int signal = 0;                    ///< 0: none
  std::string message = {};          ///< one line: of the error file, or what else is known
  std::string error_file = {};       ///< its path; empty: none
  std::int64_t age_nanoseconds = 0;  ///< since it happened, when it was told: clocks of nodes need not agree
};

/// How a run ends.
struct Outcome {
  int exit_code = 0;
  std::optional<Cause> cause = {};  ///< nothing after success, a signal, or an end that `reason` explains
  std::string reason = {};          ///< "restarted 3 times"; or why there is no cause
  bool own = false;                 ///< this agent's alone: the coordinator does not tell it
};

/// What an agent says of itself when it comes.
struct Newcomer {
  std::string run_id = {};
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::optional<std::uint32_t> node_rank = {};
  Node node = {};
  /// The newest generation that it has heard of, where it lost the coordinator and turns to its successor; `group_rank`
  /// is the agent's own place in it, or beyond its end where it has none.
  std::optional<Generation> last = {};
  std::chrono::milliseconds heartbeat_timeout{2'000};  ///< for how long it promises to turn to nobody else
};

/// What an agent tells the coordinator.
struct Report {
  enum class Kind { Join, Failed, Stopped, Done, Leave, Alive };
  Kind kind = Kind::Alive;
  std::uint32_t generation = 0;  ///< that Failed, Stopped and Done are about; Alive: the newest that it has heard of
  std::uint64_t beat = 0;        ///< Alive: the newest of the coordinator's that it has heard
  std::uint16_t port = 0;        ///< Join, Stopped: kept free on this node for the next generation
  std::optional<Newcomer> newcomer = {};
  std::vector<Cause> causes = {};
};

/// What the coordinator tells an agent.
struct Order {
  enum class Kind {
    Wait,     ///< it belongs to the run, which goes on or forms without it meanwhile: as `generation`, if there is one
    Refused,  ///< it does not belong to the run
    Begin,    ///< start workers
    Stop,     ///< stop workers; answered by Stopped
    End,      ///< stop workers and leave
    World,    ///< the nodes of `generation`, said once before the first Begin or Wait of it, which leave them out
    Alive,
  };
  Kind kind = Kind::Alive;
  Generation generation = {};  ///< Begin; Wait: the newest, in which the node may have no place; Stop: its number
  std::uint64_t beat = 0;      ///< Alive: to be said back
  std::uint32_t settled = 0;   ///< Alive: generations before this one have no say any longer
  std::string reason = {};     ///< Refused, Stop
  bool lost = false;           ///< Stop: workers are gone, so that their peers wait for them in vain
  Outcome outcome = {};        ///< End
};

}  // namespace rollcall::elastic
