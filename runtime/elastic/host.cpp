#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include "runtime/base/this_process.h"
#include "runtime/elastic/coordination.h"
#include "runtime/elastic/messages.h"
#include "runtime/elastic/port_reservation.h"
#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/port_owner.h"

namespace rollcall::elastic {
namespace {

using std::chrono::milliseconds;
constexpr MemberId kOwnAgent = 1;
/// For whoever connects to say who it is, and for who was sent away to go.
constexpr std::chrono::seconds kPatience{5};
/// Of who was not let in: a stranger fills nobody's log.
constexpr std::size_t kMostWarnings = 8;
/// Nobody makes agents of other users hold descriptors here without end, or accept without end.
constexpr std::size_t kMostSilent = 256;
/// In one turn of the loop: what they say is read before more are taken, so that many honest ones are never
/// kMostSilent.
constexpr int kMostAccepted = 64;
/// A host that is up says at once that nobody listens. Heartbeats wait meanwhile, for a quarter of their timeout at
/// most.
constexpr milliseconds kProbe{100};
/// Bytes of a Join: a run's name, a host, an address, a role.
constexpr std::size_t kLongestJoin = 8192;

/// Whether an address of the node means the same host here: one behind a tunnel or a bridge does not.
bool same_host_here(const Node& node, int connection) {
  const bool loopback = node.address.starts_with("127.") || node.address == "::1" || node.address == "localhost";
  return node.address == peer_address(connection) && (!loopback || node.host == this_host_name());
}

}  // namespace

Host::Host(EventLoop& loop, Coordinator coordinator, std::optional<Entrance> entrance, std::string own_address,
           std::chrono::milliseconds heartbeat_timeout)
    : loop_(loop),
      coordinator_(std::move(coordinator)),
      entrance_(std::move(entrance)),
      own_address_(std::move(own_address)),
      heartbeat_timeout_(heartbeat_timeout),
      // Who lost the coordinator brings the generation along that it knows, which may be a newer and longer one.
      longest_join_(kLongestJoin +
                    2 * to_text(Order{.kind = Order::Kind::Wait, .generation = coordinator_.generation()}).size()),
      began_(Clock::now()),
      next_heartbeat_(began_),
      probing_left_(heartbeat_timeout / 4) {
  if (entrance_) {
    const int listener = entrance_->listener.descriptor();
    fcntl(listener, F_SETFL, fcntl(listener, F_GETFL) | O_NONBLOCK);
    listen();
  }
}

void Host::listen() {
  listens_ = true;
  loop_.watch(entrance_->listener.descriptor(), [this] { accept_waiting(); });
}

Host::~Host() {
  if (entrance_) {
    loop_.forget(entrance_->listener.descriptor());
  }
}

void Host::accept_waiting() {
  const std::size_t most = kMostSilent + coordinator_.generation().world.size();
  for (int i = 0; i < kMostAccepted; ++i) {
    const int accepted = accept4(entrance_->listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    const bool no_room = accepted < 0 && (errno == EMFILE || errno == ENFILE);
    if (accepted < 0 && !no_room) {
      return;
    }
    if ((no_room && !strangers_.empty()) || strangers_.size() >= most) {
      drop(*strangers_.begin(), Why::Silent, "");  // the oldest: who is honest says at once who it is
    }
    if (no_room) {
      listens_ = false;  // until the next heartbeat: it stays readable
      loop_.forget(entrance_->listener.descriptor());
      return;
    }
    rendezvous::Socket socket(accepted, rendezvous::End::Server, entrance_->seal);
    const MemberId id = ++last_id_;
    const bool reuniting = coordinator_.phase() == Coordinator::Phase::Reuniting;
    Peer& peer = peers_[id];
    peer.connection = std::make_unique<Connection>(
        loop_, std::move(socket), [this, id] { hear(id); }, reuniting ? longest_join_ : kLongestJoin);
    peer.since = Clock::now();
    strangers_.insert(id);
  }
}

void Host::hear(MemberId id) {
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
    makes_sense = hear_one(id, peer, *text);
    deliver();  // it may have been refused: then stop_hearing() took what else it said
  }
  if (peer.connection->knows_another_secret()) {
    warn(
        fmt::format("an agent at {} was not let in: it does not know this run's secret; try the same "
                    "--rdzv-conf=secret=FILE on all nodes",
                    peer_address(peer.connection->descriptor())));
  }
  if (!makes_sense) {
    drop(id, Why::Silent, "its agent said what is no report");
  } else if (peer.connection->broken()) {
    drop(id, peer.connection->ended() ? Why::Ended : Why::Silent, "the connection to its agent broke");
  }
  deliver();
}

/// Whatever it knows: on this host the kernel says whose it is.
bool Host::is_another_user(const Peer& peer) {
  const std::string stranger = rendezvous::stranger_who_connected(peer.connection->descriptor());
  if (!stranger.empty()) {
    warn(fmt::format("{} connected from this host with this run's secret, and was not let in; try another secret",
                     stranger));
  }
  return !stranger.empty();
}

void Host::warn(const std::string& warning) {
  if (warned_.size() < kMostWarnings && warned_.insert(warning).second) {
    entrance_->tell("rollcall: run: warning: " + warning);
  }
}

bool Host::hear_one(MemberId id, Peer& peer, const std::string& text) {
  if (!peer.joined && !peer.closing && is_another_user(peer)) {
    return false;
  }
  std::optional<Report> report = parse_report(text);
  const bool joins = report && report->kind == Report::Kind::Join && report->newcomer;
  if (peer.joined && !report) {
    return false;
  }
  if (!peer.joined && !joins) {
    refuse(id, peer, text);
    return true;
  }
  if (!peer.joined) {
    peer.joined = true;
    strangers_.erase(id);
    peer.connection->trust();
  }
  if (joins) {
    std::string& address = report->newcomer->node.address;
    address = address.empty() ? peer_address(peer.connection->descriptor()) : address;
  }
  const Clock::time_point now = Clock::now();
  if (report->beat > 0 && report->beat <= beat_at(now)) {
    const Clock::time_point said = began_ + milliseconds(report->beat - 1);
    peer.heard_us = std::max(peer.heard_us.value_or(said), said);
  }
  coordinator_.heard(id, *report, now);
  return true;
}

/// Who did not begin with a Join.
void Host::refuse(MemberId id, Peer& peer, const std::string& text) {
  const std::string protocol = protocol_of(text);
  const Order refusal{.kind = Order::Kind::Refused,
                      .reason = protocol.empty() || protocol == kProtocol
                                    ? "that is no report of an agent"
                                    : fmt::format("this agent speaks {}, not {}: another version of rollcall",
                                                  kProtocol, protocol.substr(0, 40))};
  peer.connection->send(to_text(refusal));
  close_after_last(id, peer);
}

void Host::close_after_last(MemberId id, Peer& peer) {
  peer.closing = true;
  strangers_.insert(id);
  peer.since = Clock::now();
  peer.connection->stop_hearing();
}

/// Milliseconds since the begin, and one more: 0 is said by those who have heard nothing.
std::uint64_t Host::beat_at(Clock::time_point moment) const {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(moment - began_).count()) + 1;
}

/// Whether its agent is known to have ended, while it belonged to this coordinator. That its connection ended shows
/// little: a forwarder's end or a firewall does that to both ends, which live on. An agent listens for as long as it
/// lives.
bool Host::is_dead(MemberId id, const Peer& peer, Clock::time_point now) {
  const std::optional<Node> node = coordinator_.node_of(id);
  const bool in_time = peer.heard_us && now <= *peer.heard_us + heartbeat_timeout_;
  const Clock::duration most = std::min<Clock::duration>({kProbe, heartbeat_timeout_ / 8, probing_left_});
  const bool dead = in_time && node && node->port != 0 && most.count() > 0 &&
                    same_host_here(*node, peer.connection->descriptor()) &&
                    rendezvous::nobody_listens({node->address, node->port}, now + most);
  probing_left_ -= Clock::now() - now;
  return dead;
}

/// Who is silent may go on elsewhere later.
void Host::drop(MemberId id, Why why, const std::string& reason) {
  const Peer& peer = peers_.at(id);
  const Clock::time_point now = Clock::now();
  const bool dead = why == Why::Ended && is_dead(id, peer, now);
  if (why == Why::Silent && peer.joined && !peer.closing) {
    const Outcome fenced{to_int(ExitCode::Unavailable), {}, "lost by the others: " + reason};
    peer.connection->send(to_text(Order{.kind = Order::Kind::End, .outcome = fenced}));
  }
  coordinator_.lost(id, reason, dead, now);
  peers_.erase(id);
  strangers_.erase(id);
}

void Host::deliver() {
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
    tell(found->second, std::move(order));
    if (last) {
      close_after_last(id, found->second);
    }
  }
  for (const MemberId id : strangers_) {
    Peer& peer = peers_.at(id);
    if (peer.closing && !peer.sent_all && peer.connection->flushed()) {
      peer.sent_all = true;
      peer.connection->end_sending();
    }
  }
}

/// The nodes of a world are the same for all, and made into a text once.
void Host::tell(Peer& peer, Order order) {
  const Nodes world = order.generation.world;
  if (!world.empty()) {
    if (!newest_world_.is_same(world)) {
      newest_world_ = world;
      newest_world_text_ = to_text(Order{.kind = Order::Kind::World, .generation = order.generation});
    }
    if (!peer.told.is_same(world)) {
      peer.told = world;
      peer.connection->send(newest_world_text_);
    }
    order.generation.world = {};
    order.generation.unsettled = {};
  }
  peer.connection->send(to_text(order));
}

/// The others see the connections end, and turn to the successor without waiting for this node's workers.
void Host::hand_over() {
  peers_.clear();
  strangers_.clear();
  if (entrance_) {
    loop_.forget(entrance_->listener.descriptor());
    entrance_.reset();
  }
}

void Host::report(const Report& report) {
  coordinator_.heard(kOwnAgent, report, Clock::now());
  deliver();
  if (coordinator_.handed_over()) {
    hand_over();
  }
}

std::vector<Order> Host::take_orders() { return std::exchange(own_orders_, {}); }

void Host::tick(Clock::time_point now) {
  coordinator_.tick(now);
  if (now >= next_heartbeat_) {
    // Where this process was held up, what the others said meanwhile is still to be read.
    const bool held_up = now > next_heartbeat_ + heartbeat_timeout_ / 4;
    next_heartbeat_ = now + heartbeat_timeout_ / 4;
    probing_left_ = heartbeat_timeout_ / 4;
    if (entrance_ && !listens_) {
      listen();
    }
    const Order alive{.beat = beat_at(now), .settled = coordinator_.settled()};
    std::vector<std::tuple<MemberId, Why, std::string>> gone;
    for (auto& [id, peer] : peers_) {
      if ((!peer.joined || peer.closing) && now - peer.since > kPatience) {
        gone.emplace_back(id, Why::Silent, "");
      } else if (peer.connection->ended()) {
        gone.emplace_back(id, Why::Ended, "the connection to its agent broke");
      } else if (peer.connection->broken()) {
        gone.emplace_back(id, Why::Silent, "its agent does not read what it is told");
      } else if (!held_up && peer.joined && now - peer.connection->last_heard() > heartbeat_timeout_) {
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

std::optional<Clock::time_point> Host::next_tick() const {
  const std::optional<Clock::time_point> next = coordinator_.next_tick();
  const bool waits_to_listen = entrance_ && !listens_;
  return peers_.empty() && !waits_to_listen ? next : std::min(next.value_or(next_heartbeat_), next_heartbeat_);
}

std::string Host::where() const {
  return entrance_ ? rendezvous::to_text({own_address_, entrance_->listener.port()}) : "";
}

bool Host::finished() const {
  return std::ranges::all_of(peers_, [](const auto& entry) {
    return entry.second.connection->flushed() || entry.second.connection->broken();
  });
}

}  // namespace rollcall::elastic
