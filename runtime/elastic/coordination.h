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
#include "runtime/rendezvous/newcomers.h"

namespace rollcall::elastic {

/// Why a coordinator is not heard any longer.
struct Gone {
  std::string reason;
  bool refused = false;  ///< it said what no agent says: it is none to go on from
  bool silent = false;   ///< its connection stays, and nothing comes: its host may have no power
};

/// How an agent talks with the coordinator, be it in its own process or elsewhere.
class Coordination {
 public:
  virtual ~Coordination() = default;
  virtual void report(const Report& report) = 0;
  [[nodiscard]] virtual std::vector<Order> take_orders() = 0;
  /// Nothing while the coordinator can be heard.
  [[nodiscard]] virtual std::optional<Gone> gone() const = 0;
  virtual void tick(Clock::time_point now) = 0;
  [[nodiscard]] virtual std::optional<Clock::time_point> next_tick() const = 0;
  /// The address by which the other nodes reach this one; empty: the coordinator sees it.
  [[nodiscard]] virtual std::string own_address() const = 0;
  /// Where the agents meet: "host:port"; empty where none can come.
  [[nodiscard]] virtual std::string where() const = 0;
  /// The coordinator itself, where it is in this process; null: elsewhere.
  [[nodiscard]] virtual const Coordinator* coordinator() const { return nullptr; }
  /// All that had to be said to others has been handed to the kernel.
  [[nodiscard]] virtual bool finished() const { return true; }
};

/// Shows a line to the user.
using Tell = std::function<void(const std::string& line)>;

/// Where other agents come in: those that know the secret, of this user.
struct Entrance {
  rendezvous::Listener listener;
  rendezvous::Seal seal;
  Tell tell;  ///< of who was not let in, and was told nothing
};

/// The coordinator in this process, for its own agent (member 1) and those that connect.
class Host : public Coordination {
 public:
  /// Without an entrance nobody else can come. Who is waiting there already comes first.
  Host(EventLoop& loop, Coordinator coordinator, std::optional<Entrance> entrance, std::string own_address,
       std::chrono::milliseconds heartbeat_timeout);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host() override = default;

  void report(const Report& report) override;
  [[nodiscard]] std::vector<Order> take_orders() override;
  [[nodiscard]] std::optional<Gone> gone() const override { return std::nullopt; }
  void tick(Clock::time_point now) override;
  [[nodiscard]] std::optional<Clock::time_point> next_tick() const override;
  [[nodiscard]] std::string own_address() const override { return own_address_; }
  [[nodiscard]] std::string where() const override;
  [[nodiscard]] const Coordinator* coordinator() const override { return &coordinator_; }
  [[nodiscard]] bool finished() const override;

 private:
  struct Peer {
    std::unique_ptr<Connection> connection;
    Clock::time_point since;  ///< it came, or is closing
    /// When the newest word of this coordinator's was said that it has heard: for `heartbeat_timeout` after it, its
    /// agent turns to nobody else. Nothing: it has not said so yet.
    std::optional<Clock::time_point> heard_us = {};
    Nodes told = {};  ///< the world that it was told of
    bool joined = false;
    bool closing = false;  ///< its last order is on its way, and nothing that it says counts
  };
  void greet(rendezvous::Socket socket);
  void send_away(const rendezvous::Stranger& stranger);
  void hear(MemberId id);
  /// False where a member says what is no report.
  [[nodiscard]] bool hear_one(MemberId id, Peer& peer, const std::string& text);
  void refuse(MemberId id, Peer& peer);
  void close_after_last(MemberId id, Peer& peer);
  void deliver();
  void tell(Peer& peer, Order order);
  void hand_over();
  enum class Why { Ended, Silent };
  [[nodiscard]] bool is_dead(MemberId id, const Peer& peer, Clock::time_point now);
  void drop(MemberId id, Why why, const std::string& reason);
  [[nodiscard]] std::uint64_t beat_at(Clock::time_point moment) const;

  EventLoop& loop_;
  Coordinator coordinator_;
  std::optional<Entrance> entrance_;
  std::string own_address_;
  std::chrono::milliseconds heartbeat_timeout_;
  std::size_t longest_join_;
  Clock::time_point began_;
  Clock::time_point next_heartbeat_;
  Clock::duration probing_left_;  ///< until the next heartbeat
  MemberId last_id_ = 1;
  std::map<MemberId, Peer> peers_;
  std::set<MemberId> strangers_;  ///< of the peers: not joined, or closing
  Nodes newest_world_;            ///< which newest_world_text_ says
  std::string newest_world_text_;
  std::set<std::string> warned_;
  std::vector<Order> own_orders_;
  std::optional<rendezvous::Newcomers> newcomers_;  ///< at the entrance
};

/// For an agent that is hung up on before it is answered: whoever connects can make the coordinator do that, who takes
/// the longest waiting for a stranger.
struct Retry {
  std::function<Result<rendezvous::Socket>()> connect = {};
  Clock::time_point until = {};
  std::optional<Clock::time_point> due = {};
  std::chrono::milliseconds pause{5};
  int unanswered = 0;      ///< handshakes in a row that the other end began, and left: it knows another secret
  std::string first = {};  ///< what this agent joined with
};

/// A coordinator elsewhere. It is gone when its process has ended, or after `heartbeat_timeout` without a word: until
/// then this agent turns to nobody else, even where the connection broke. It is obeyed as long as what it says concerns
/// this agent: a generation without a place for it, or a message that no agent sends, ends the talk.
class Guest : public Coordination {
 public:
  /// Says hello on `socket`. `first_timeout`: how long to wait for its first word. `endpoint`: where it listens.
  /// `retry`: without it who hangs up unanswered is no agent of this run.
  Guest(EventLoop& loop, rendezvous::Socket socket, std::chrono::milliseconds heartbeat_timeout,
        std::chrono::milliseconds first_timeout, rendezvous::Endpoint endpoint, Retry retry = {});

  void report(const Report& report) override;
  [[nodiscard]] std::vector<Order> take_orders() override;
  [[nodiscard]] std::optional<Gone> gone() const override { return gone_; }
  void tick(Clock::time_point now) override;
  [[nodiscard]] std::optional<Clock::time_point> next_tick() const override {
    return gone_ ? std::nullopt : std::optional(retry_.due.value_or(next_heartbeat_));
  }
  [[nodiscard]] std::string own_address() const override;
  [[nodiscard]] std::string where() const override { return rendezvous::to_text(endpoint_); }
  [[nodiscard]] bool finished() const override { return connection_->flushed() || connection_->broken(); }

 private:
  void begin(rendezvous::Socket socket);
  void connect_again();
  void hear();
  /// False where it is no use any longer.
  [[nodiscard]] bool comes_again();
  [[nodiscard]] bool nobody_is_there() const;
  void give_up();
  /// False where it is what no agent says.
  [[nodiscard]] bool take(Order order);

  EventLoop& loop_;
  std::chrono::milliseconds heartbeat_timeout_;
  std::chrono::milliseconds patience_;  ///< until its next word
  rendezvous::Endpoint endpoint_;
  rendezvous::Endpoint connected_to_;  ///< the same, its address in digits
  Node own_;                           ///< as this agent reported itself
  Clock::time_point next_heartbeat_;
  std::vector<Order> orders_;
  bool understood_ = false;   ///< it has said something that an agent says
  std::uint64_t beat_ = 0;    ///< the newest that was heard
  std::uint32_t newest_ = 0;  ///< generation that the agent was told of
  Generation world_;          ///< the one whose nodes were told last
  std::optional<Gone> gone_;
  Retry retry_;
  std::optional<Connection> connection_;
};

/// The coordinator that an agent found or became.
struct Met {
  std::unique_ptr<Coordination> coordination;  ///< null: `signal`, one of request.signals, came before
  int signal = 0;
};

/// Finds the coordinator that `request` names, or becomes it where the endpoint is this host and nobody listens there
/// yet. Tries until request.meeting.join_timeout, and tells what it waits for where that takes longer than agents that
/// start together need. Errors (Unavailable): nobody listens there, the port cannot be had, or another user of this
/// host has it.
[[nodiscard]] Result<Met> meet_agents(EventLoop& loop, const LaunchRequest& request, const Tell& tell);

/// The agent at `successor`, which is or will be the coordinator where the one before was lost. Tries for half a
/// second. Errors (Unavailable): nobody of this user listens there.
[[nodiscard]] Result<std::unique_ptr<Coordination>> turn_to(EventLoop& loop, const LaunchRequest& request,
                                                            const Node& successor);

/// The coordinator in this process, in the place of that of `last`, which was lost.
[[nodiscard]] std::unique_ptr<Coordination> take_the_place(EventLoop& loop, const LaunchRequest& request,
                                                           rendezvous::Listener listener, const Generation& last,
                                                           Tell tell);

}  // namespace rollcall::elastic
