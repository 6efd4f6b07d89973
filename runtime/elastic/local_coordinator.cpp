#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "runtime/base/this_process.h"
#include "runtime/elastic/coordinator_link.h"
#include "runtime/elastic/messages.h"
#include "runtime/elastic/port_reservation.h"
#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/endpoint.h"

namespace rollcall::elastic {
namespace {

using std::chrono::milliseconds;
constexpr MemberId kOwnAgent = 1;
/// Time for an authenticated peer to join, and for a rejected one to disconnect.
constexpr std::chrono::seconds kPatience{5};
/// Limit of warnings about rejected peers, which must not fill the log.
constexpr std::size_t kMostWarnings = 8;
/// Limit of a Join in bytes: a run's name, a host, an address, a role.
constexpr std::size_t kLongestJoin = 8192;
/// Limit of peers that have not joined or are closing, in addition to the largest number of nodes.
constexpr std::size_t kMostUnjoined = 256;
/// Time limit of a probe: a host that is up refuses immediately. Heartbeats wait meanwhile, for at most a quarter of
/// their timeout.
constexpr milliseconds kProbe{100};

/// Returns whether the node's address means the same host here; that of a node behind a tunnel or bridge does not.
bool same_host_here(const Node& node, int connection) {
  const bool loopback = node.address.starts_with("127.") || node.address == "::1" || node.address == "localhost";
  return node.address == peer_address(connection) && (!loopback || node.host == this_host_name());
}

}  // namespace

LocalCoordinator::LocalCoordinator(EventLoop& loop, Coordinator coordinator,
                                   std::optional<AgentListener> agent_listener, std::string own_address,
                                   std::chrono::milliseconds heartbeat_timeout)
    : loop_(loop),
      coordinator_(std::move(coordinator)),
      agent_listener_(std::move(agent_listener)),
      own_address_(std::move(own_address)),
      heartbeat_timeout_(heartbeat_timeout),
      // An agent that lost the coordinator sends the generation that it knows, which may be newer and larger.
      longest_join_(kLongestJoin +
                    2 * to_text(Order{.kind = Order::Kind::Wait, .generation = coordinator_.generation()}).size()),
      began_(Clock::now()),
      next_heartbeat_(began_),
      probing_left_(heartbeat_timeout / 4) {
  if (agent_listener_) {
    pending_.emplace(
        loop_, agent_listener_->seal, coordinator_.policy().max_nodes,
        [this](rendezvous::Socket socket, const rendezvous::Hello&) { greet(std::move(socket)); },
        [this](const rendezvous::RejectedPeer& rejected) { warn_rejected(rejected); });
    pending_->listen(agent_listener_->listener.descriptor());
  }
}

void LocalCoordinator::greet(rendezvous::Socket socket) {
  if (unjoined_.size() >= kMostUnjoined + coordinator_.policy().max_nodes) {
    drop(*unjoined_.begin(), Why::Silent, "");
  }
  const MemberId id = ++last_id_;
  const bool reuniting = coordinator_.phase() == Coordinator::Phase::Reuniting;
  Peer& peer = peers_[id];
  peer.connection = std::make_unique<Connection>(
      loop_, std::move(socket), [this, id] { receive(id); }, reuniting ? longest_join_ : kLongestJoin);
  peer.since = Clock::now();
  unjoined_.insert(id);
  receive(id);  // data that arrived with its hello
}

void LocalCoordinator::warn_rejected(const rendezvous::RejectedPeer& rejected) {
  const std::string warning =
      rejected.knows_the_secret
          ? fmt::format("rejected {}, which connected from this host with this run's secret; try changing the secret",
                        rejected.who)
          : fmt::format(
                "rejected an agent at {}, which does not know this run's secret; try giving the same "
                "--rdzv-conf=secret=FILE on all nodes",
                rejected.who);
  if (warned_.size() < kMostWarnings && warned_.insert(warning).second) {
    agent_listener_->print_line("rollcall: warning: run: " + warning);
  }
}

void LocalCoordinator::receive(MemberId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) {
    return;
  }
  Peer& peer = found->second;
  bool makes_sense = true;
  while (makes_sense) {
    const std::optional<std::string> text = peer.connection->next();
    if (!text) {
      break;
    }
    makes_sense = handle_message(id, peer, *text);
    deliver();  // after a refusal, stop_hearing() has discarded the rest
  }
  if (!makes_sense) {
    drop(id, Why::Silent, "its agent sent an invalid message");
  } else if (peer.connection->broken()) {
    drop(id, peer.connection->ended() ? Why::Ended : Why::Silent, "the connection to its agent broke");
  }
  deliver();
}

bool LocalCoordinator::handle_message(MemberId id, Peer& peer, const std::string& text) {
  std::optional<Report> report = parse_report(text);
  const bool joins = report && report->kind == Report::Kind::Join && report->join_request;
  if (peer.joined && !report) {
    return false;
  }
  if (!peer.joined && !joins) {
    refuse(id, peer);
    return true;
  }
  if (!peer.joined) {
    peer.joined = true;
    unjoined_.erase(id);
    peer.connection->trust();
  }
  if (joins) {
    std::string& address = report->join_request->node.address;
    address = address.empty() ? peer_address(peer.connection->descriptor()) : address;
  }
  const Clock::time_point now = Clock::now();
  if (report->beat > 0 && report->beat <= beat_at(now)) {
    const Clock::time_point said = began_ + milliseconds(report->beat - 1);
    peer.last_acknowledged = std::max(peer.last_acknowledged.value_or(said), said);
  }
  coordinator_.handle_report(id, *report, now);
  return true;
}

/// Rejects a peer whose first message is not a Join.
void LocalCoordinator::refuse(MemberId id, Peer& peer) {
  peer.connection->send(
      to_text(Order{.kind = Order::Kind::Refused, .reason = "this is not a message of a rollcall agent"}));
  close_after_last(id, peer);
}

void LocalCoordinator::close_after_last(MemberId id, Peer& peer) {
  peer.closing = true;
  unjoined_.insert(id);
  peer.since = Clock::now();
  peer.connection->stop_receiving();
}

/// Returns the milliseconds since the begin plus 1; an agent without any heartbeat acknowledges 0.
std::uint64_t LocalCoordinator::beat_at(Clock::time_point moment) const {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(moment - began_).count()) + 1;
}

/// Returns whether the agent is known to have ended while it belonged to this coordinator. The end of its connection is
/// no proof: a forwarder's end or a firewall closes both ends while the agent lives. An agent listens as long as it
/// lives.
bool LocalCoordinator::is_dead(MemberId id, const Peer& peer, Clock::time_point now) {
  const std::optional<Node> node = coordinator_.node_of(id);
  const bool in_time = peer.last_acknowledged && now <= *peer.last_acknowledged + heartbeat_timeout_;
  const Clock::duration most = std::min<Clock::duration>({kProbe, heartbeat_timeout_ / 8, probing_left_});
  const bool dead = in_time && node && node->port != 0 && most.count() > 0 &&
                    same_host_here(*node, peer.connection->descriptor()) &&
                    rendezvous::nobody_listens({node->address, node->port}, now + most);
  probing_left_ -= Clock::now() - now;
  return dead;
}

/// Removes a peer. A silent one may continue elsewhere later.
void LocalCoordinator::drop(MemberId id, Why why, const std::string& reason) {
  const Peer& peer = peers_.at(id);
  const Clock::time_point now = Clock::now();
  const bool dead = why == Why::Ended && is_dead(id, peer, now);
  if (why == Why::Silent && peer.joined && !peer.closing) {
    const Outcome fenced{to_int(ExitCode::Unavailable), {}, "the coordinator lost this node: " + reason};
    peer.connection->send(to_text(Order{.kind = Order::Kind::End, .outcome = fenced}));
  }
  coordinator_.lost(id, reason, dead, now);
  peers_.erase(id);
  unjoined_.erase(id);
}

void LocalCoordinator::deliver() {
  for (auto& [id, order] : coordinator_.take_orders()) {
    if (id == kOwnAgent) {
      own_orders_.push_back(std::move(order));
      continue;
    }
    const auto found = peers_.find(id);
    if (found == peers_.end()) {
      continue;
    }
    order.beat = beat_at(Clock::now());
    const bool last = order.kind == Order::Kind::Refused || order.kind == Order::Kind::End;
    send_order(found->second, std::move(order));
    if (last) {
      close_after_last(id, found->second);
    }
  }
  for (const MemberId id : unjoined_) {
    if (const Peer& peer = peers_.at(id); peer.closing && peer.connection->flushed()) {
      peer.connection->end_sending();
    }
  }
}

/// Sends an order. The nodes of a world are the same for all peers, and encoded once.
void LocalCoordinator::send_order(Peer& peer, Order order) {
  const Nodes world = order.generation.world;
  if (!world.empty()) {
    if (!newest_world_.is_same(world)) {
      newest_world_ = world;
      newest_world_text_ = to_text(Order{.kind = Order::Kind::World, .generation = order.generation});
    }
    if (!peer.sent_nodes.is_same(world)) {
      peer.sent_nodes = world;
      peer.connection->send(newest_world_text_);
    }
    order.generation.world = {};
    order.generation.unsettled = {};
  }
  peer.connection->send(to_text(order));
}

/// Closes all connections, so that the other agents fail over without waiting for this node's workers.
void LocalCoordinator::hand_over() {
  peers_.clear();
  unjoined_.clear();
  pending_.reset();
  agent_listener_.reset();
}

void LocalCoordinator::report(const Report& report) {
  coordinator_.handle_report(kOwnAgent, report, Clock::now());
  deliver();
  if (coordinator_.handed_over()) {
    hand_over();
  }
}

std::vector<Order> LocalCoordinator::take_orders() { return std::exchange(own_orders_, {}); }

void LocalCoordinator::tick(Clock::time_point now) {
  coordinator_.tick(now);
  if (pending_ && !pending_->problem().empty()) {
    const std::string warning = "cannot accept agents: " + pending_->problem();
    if (warned_.insert(warning).second) {
      agent_listener_->print_line("rollcall: warning: run: " + warning +
                                  "; try raising the hard limit of open files (ulimit -Hn)");
    }
    pending_->pause();
  }
  if (now >= next_heartbeat_) {
    // After a delay of this process, messages that arrived meanwhile are still unread.
    const bool held_up = now > next_heartbeat_ + heartbeat_timeout_ / 4;
    next_heartbeat_ = now + heartbeat_timeout_ / 4;
    probing_left_ = heartbeat_timeout_ / 4;
    if (pending_) {
      pending_->tick(now);
    }
    const Order alive{.beat = beat_at(now), .settled = coordinator_.settled()};
    std::vector<std::tuple<MemberId, Why, std::string>> gone;
    for (auto& [id, peer] : peers_) {
      if ((!peer.joined || peer.closing) && now - peer.since > kPatience) {
        gone.emplace_back(id, Why::Silent, "");
      } else if (peer.connection->ended()) {
        gone.emplace_back(id, Why::Ended, "the connection to its agent broke");
      } else if (peer.connection->broken()) {
        gone.emplace_back(id, Why::Silent, "its agent does not read its messages");
      } else if (!held_up && peer.joined && now - peer.connection->last_received() > heartbeat_timeout_) {
        gone.emplace_back(
            id, Why::Silent,
            fmt::format("its agent was silent for {:g} s", std::chrono::duration<double>(heartbeat_timeout_).count()));
      } else if (peer.joined && !peer.closing) {
        peer.connection->send(to_text(alive));
      }
    }
    for (const auto& [id, why, reason] : gone) {
      drop(id, why, reason);
    }
  }
  deliver();
}

std::optional<Clock::time_point> LocalCoordinator::next_tick() const {
  const std::optional<Clock::time_point> next = coordinator_.next_tick();
  const bool anybody = !peers_.empty() || (pending_ && pending_->any_pending());
  return anybody ? std::min(next.value_or(next_heartbeat_), next_heartbeat_) : next;
}

std::string LocalCoordinator::where() const {
  return agent_listener_ ? to_text(rendezvous::Endpoint{own_address_, agent_listener_->listener.port()}) : "";
}

bool LocalCoordinator::finished() const {
  return std::ranges::all_of(peers_, [](const auto& entry) {
    return entry.second.connection->flushed() || entry.second.connection->broken();
  });
}

}  // namespace rollcall::elastic
