#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/elastic/connection.h"
#include "runtime/elastic/coordinator.h"
#include "runtime/elastic/launch_request.h"
#include "runtime/rendezvous/listener.h"
#include "runtime/rendezvous/pending_connections.h"

namespace rollcall::elastic {

/// Why the coordinator is no longer reachable or obeyed.
struct CoordinatorLoss {
  std::string reason;
  bool refused = false;  ///< it violated the protocol, so that its run is not continued
  bool silent = false;   ///< the connection is open but nothing arrives: its host may be down
};

/// An agent's link to the coordinator, which may be in the same process or on another host.
class CoordinatorLink {
 public:
  virtual ~CoordinatorLink() = default;
  virtual void report(const Report& report) = 0;
  [[nodiscard]] virtual std::vector<Order> take_orders() = 0;
  /// Returns why the coordinator is lost; unset while it is reachable.
  [[nodiscard]] virtual std::optional<CoordinatorLoss> gone() const = 0;
  virtual void tick(Clock::time_point now) = 0;
  [[nodiscard]] virtual std::optional<Clock::time_point> next_tick() const = 0;
  /// Returns the address by which other nodes reach this one; empty: the coordinator sees it on the connection.
  [[nodiscard]] virtual std::string own_address() const = 0;
  /// Returns the rendezvous endpoint "host:port"; empty where no other agent can join.
  [[nodiscard]] virtual std::string where() const = 0;
  /// Returns the coordinator where it is in this process; otherwise null.
  [[nodiscard]] virtual const Coordinator* coordinator() const { return nullptr; }
  /// Returns whether the kernel has taken all data for other agents.
  [[nodiscard]] virtual bool finished() const { return true; }
};

/// Prints a line for the user.
using PrintLine = std::function<void(const std::string& line)>;

/// Where other agents of this user that know the secret connect.
struct AgentListener {
  rendezvous::Listener listener;
  rendezvous::Seal seal;
  PrintLine print_line;  ///< reports connections that were rejected without an answer
};

/// The coordinator in this process, for its own agent (member 1) and those that connect.
class LocalCoordinator : public CoordinatorLink {
 public:
  /// Without `agent_listener` no other agent can join. Connections that already wait there are accepted first.
  LocalCoordinator(EventLoop& loop, Coordinator coordinator, std::optional<AgentListener> agent_listener,
                   std::string own_address, std::chrono::milliseconds heartbeat_timeout);
  LocalCoordinator(const LocalCoordinator&) = delete;
  LocalCoordinator& operator=(const LocalCoordinator&) = delete;
  ~LocalCoordinator() override = default;

  void report(const Report& report) override;
  [[nodiscard]] std::vector<Order> take_orders() override;
  [[nodiscard]] std::optional<CoordinatorLoss> gone() const override { return std::nullopt; }
  void tick(Clock::time_point now) override;
  [[nodiscard]] std::optional<Clock::time_point> next_tick() const override;
  [[nodiscard]] std::string own_address() const override { return own_address_; }
  [[nodiscard]] std::string where() const override;
  [[nodiscard]] const Coordinator* coordinator() const override { return &coordinator_; }
  [[nodiscard]] bool finished() const override;

 private:
  struct Peer {
    std::unique_ptr<Connection> connection;
    Clock::time_point since;  ///< when it connected, or when closing began
    /// When this coordinator sent the newest heartbeat that the peer has acknowledged: for `heartbeat_timeout` after
    /// it, the peer does not fail over. Unset before the first acknowledgement.
    std::optional<Clock::time_point> last_acknowledged = {};
    Nodes sent_nodes = {};  ///< the world that was last sent to it
    bool joined = false;
    bool closing = false;  ///< its last order is being sent, and its messages are ignored
  };
  void greet(rendezvous::Socket socket);
  void warn_rejected(const rendezvous::RejectedPeer& stranger);
  void receive(MemberId id);
  /// Handles one message; returns false where it is not a valid report.
  [[nodiscard]] bool handle_message(MemberId id, Peer& peer, const std::string& text);
  void refuse(MemberId id, Peer& peer);
  void close_after_last(MemberId id, Peer& peer);
  void deliver();
  void send_order(Peer& peer, Order order);
  void hand_over();
  enum class Why { Ended, Silent };
  [[nodiscard]] bool is_dead(MemberId id, const Peer& peer, Clock::time_point now);
  void drop(MemberId id, Why why, const std::string& reason);
  [[nodiscard]] std::uint64_t beat_at(Clock::time_point moment) const;

  EventLoop& loop_;
  Coordinator coordinator_;
  std::optional<AgentListener> agent_listener_;
  std::string own_address_;
  std::chrono::milliseconds heartbeat_timeout_;
  std::size_t longest_join_;
  Clock::time_point began_;
  Clock::time_point next_heartbeat_;
  Clock::duration probing_left_;  ///< time for probing connections until the next heartbeat
  MemberId last_id_ = 1;
  std::map<MemberId, Peer> peers_;
  std::set<MemberId> unjoined_;  ///< peers that have not joined, or are closing
  Nodes newest_world_;           ///< the world that newest_world_text_ encodes
  std::string newest_world_text_;
  std::set<std::string> warned_;
  std::vector<Order> own_orders_;
  std::optional<rendezvous::PendingConnections> pending_;  ///< connections that have not sent their hello
};

/// Reconnects an agent whose connection is closed before it is answered: any client can cause that, because the
/// coordinator closes the longest-waiting unauthenticated connections when there are too many.
struct Retry {
  std::function<Result<rendezvous::Socket>()> connect = {};
  Clock::time_point until = {};
  std::optional<Clock::time_point> due = {};
  std::chrono::milliseconds pause{5};
  int unanswered = 0;      ///< handshakes in a row that the peer began and then left: it knows another secret
  std::string first = {};  ///< the message with which this agent joined
};

/// A coordinator in another process. It counts as lost when its process has ended or has been silent for
/// `heartbeat_timeout`; before that this agent does not fail over, even where the connection broke. The connection ends
/// where the coordinator sends an invalid message, or a generation that has no place for this agent.
class RemoteCoordinator : public CoordinatorLink {
 public:
  /// Sends the hello on `socket`. `first_timeout`: how long to wait for the first message. `endpoint`: where the
  /// coordinator listens. Without `retry`, a peer that closes the connection unanswered is not an agent of this run.
  RemoteCoordinator(EventLoop& loop, rendezvous::Socket socket, std::chrono::milliseconds heartbeat_timeout,
                    std::chrono::milliseconds first_timeout, rendezvous::Endpoint endpoint, Retry retry = {});

  void report(const Report& report) override;
  [[nodiscard]] std::vector<Order> take_orders() override;
  [[nodiscard]] std::optional<CoordinatorLoss> gone() const override { return gone_; }
  void tick(Clock::time_point now) override;
  [[nodiscard]] std::optional<Clock::time_point> next_tick() const override {
    return gone_ ? std::nullopt : std::optional(retry_.due.value_or(next_heartbeat_));
  }
  [[nodiscard]] std::string own_address() const override;
  [[nodiscard]] std::string where() const override { return rendezvous::to_text(endpoint_); }
  [[nodiscard]] bool finished() const override { return connection_->flushed() || connection_->broken(); }

 private:
  void begin(rendezvous::Socket socket);
  void reconnect();
  void receive();
  /// Reconnects where that can help; returns false where it cannot.
  [[nodiscard]] bool schedule_retry();
  [[nodiscard]] bool listener_is_gone() const;
  void give_up();
  /// Handles one order; returns false where no agent would send it.
  [[nodiscard]] bool take(Order order);

  EventLoop& loop_;
  std::chrono::milliseconds heartbeat_timeout_;
  std::chrono::milliseconds patience_;  ///< until its next message
  rendezvous::Endpoint endpoint_;
  rendezvous::Endpoint connected_to_;  ///< the same endpoint with a numeric address
  Node own_;                           ///< this agent's node, as it was reported
  Clock::time_point next_heartbeat_;
  std::vector<Order> orders_;
  bool understood_ = false;   ///< it has sent a valid message
  std::uint64_t beat_ = 0;    ///< newest heartbeat received
  std::uint32_t newest_ = 0;  ///< newest generation that the agent was sent
  Generation world_;          ///< the generation whose nodes were sent last
  std::optional<CoordinatorLoss> gone_;
  Retry retry_;
  std::optional<Connection> connection_;
};

/// The coordinator that an agent found or became.
struct MeetingResult {
  std::unique_ptr<CoordinatorLink> coordinator_link;  ///< null: `signal`, one of request.signals, arrived first
  int signal = 0;
};

/// Finds the coordinator that `request` names, or becomes it where the endpoint is on this host and nothing listens
/// there yet. Tries until request.meeting.join_timeout, and reports what it waits for once that takes longer than usual
/// for agents that start together. Errors (Unavailable): nothing listens there, the port cannot be bound, or another
/// user of this host listens there.
[[nodiscard]] Result<MeetingResult> meet_agents(EventLoop& loop, const LaunchRequest& request,
                                                const PrintLine& print_line);

/// Connects to the agent at `successor`, which is or becomes the coordinator after the earlier one was lost. Tries for
/// half a second. Errors (Unavailable): no process of this user listens there.
[[nodiscard]] Result<std::unique_ptr<CoordinatorLink>> fail_over_to(EventLoop& loop, const LaunchRequest& request,
                                                                    const Node& successor);

/// Returns a coordinator in this process that replaces the lost coordinator of `last`.
[[nodiscard]] std::unique_ptr<CoordinatorLink> promote(EventLoop& loop, const LaunchRequest& request,
                                                       rendezvous::Listener listener, const Generation& last,
                                                       PrintLine print_line);

}  // namespace rollcall::elastic
