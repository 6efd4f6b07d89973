#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "runtime/base/this_process.h"
#include "runtime/elastic/coordinator_link.h"
#include "runtime/elastic/messages.h"
#include "runtime/elastic/port_reservation.h"
#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/handshake.h"
#include "runtime/rendezvous/world_key.h"

namespace rollcall::elastic {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kFirstPause{5};
constexpr milliseconds kLongestPause{500};
constexpr std::chrono::seconds kAttempt{2};
constexpr std::chrono::seconds kStartTogether{3};  ///< time within which the agents of a run usually start
/// Limit of consecutive handshakes that end unanswered, within about 1 s; a flood of other clients does not cause that.
constexpr int kMostUnanswered = 8;
constexpr milliseconds kAttemptAtSuccessor{500};  // a live successor answers much faster, a dead host never does

/// Returns how long a successor waits: agents notice the loss up to heartbeat_timeout apart, and may try dead
/// successors first.
milliseconds reunion_timeout(const LaunchRequest& request) {
  return 2 * request.meeting.heartbeat_timeout + milliseconds(1000);
}

Policy policy_of(const LaunchRequest& request) {
  Policy policy;
  policy.run_id = request.meeting.run_id;
  policy.min_nodes = request.min_nodes;
  policy.max_nodes = request.max_nodes;
  policy.max_restarts = request.max_restarts;
  policy.give_up_after = request.give_up_after;
  policy.join_timeout = request.meeting.join_timeout;
  policy.last_call_timeout = request.meeting.last_call_timeout;
  policy.stop_timeout = 2 * request.shutdown_timeout + std::chrono::seconds(10);
  policy.heartbeat_timeout = request.meeting.heartbeat_timeout;
  policy.reunion_timeout = reunion_timeout(request);
  return policy;
}

Error unreachable(const rendezvous::Endpoint& endpoint, const std::string& reason, milliseconds timeout) {
  return fail("--rdzv-endpoint", rendezvous::to_text(endpoint),
              fmt::format("did not answer {} within {:g} s ({})", this_host_name(),
                          std::chrono::duration<double>(timeout).count(), reason),
              "checking the agent there, giving another endpoint, or raising --rdzv-conf=join_timeout",
              ErrorKind::Unavailable);
}

std::string still_looking(const rendezvous::Endpoint& endpoint, const std::string& reason, milliseconds timeout) {
  return fmt::format(
      "rollcall: run: {} cannot reach the run at {} yet: {}; it keeps trying for {:g} s (--rdzv-conf=join_timeout)",
      this_host_name(), rendezvous::to_text(endpoint), reason, std::chrono::duration<double>(timeout).count());
}

Error cannot_listen(Error error, const MeetingRequest& meeting) {
  error.setting = meeting.node_rank ? "--master-port" : "--rdzv-endpoint";
  error.action = "giving another port";
  return error;
}

Error not_ours(const rendezvous::Endpoint& endpoint, const std::string& rejected) {
  return fail("--rdzv-endpoint", rendezvous::to_text(endpoint), rejected + ", which is not an agent of this run",
              "giving another port", ErrorKind::Unavailable);
}

/// Returns whether the generation has a place for the node that reported itself as `own`, and a valid number of ranks.
bool has_place_for(const Node& own, const Generation& generation) {
  if (generation.group_rank >= generation.world.size()) {
    return false;
  }
  Node there = generation.world[generation.group_rank];
  there.address = own.address.empty() ? "" : there.address;  // then the coordinator used the address that it sees
  std::uint64_t workers = 0;
  for (const Node& node : generation.world) {
    workers += node.workers;
  }
  return there == own && workers <= std::numeric_limits<std::int32_t>::max();
}

/// Returns `endpoint` with the peer's numeric address, where the connection still has one.
rendezvous::Endpoint by_address(int descriptor, const rendezvous::Endpoint& endpoint) {
  const std::string address = peer_address(descriptor);
  return {address.empty() ? endpoint.host : address, endpoint.port};
}

/// Returns the secret of all of the user's runs, or of the step, not of this run alone: agents of another run can then
/// be told so over the encrypted connection.
rendezvous::Seal seal_of(const LaunchRequest& request) {
  return {rendezvous::Secret::of(request.meeting.secret, "rollcall run"), "elastic"};
}

Retry retry_at(const rendezvous::Endpoint& endpoint, const LaunchRequest& request, Clock::time_point until) {
  return {.connect =
              [endpoint, seal = seal_of(request)] {
                return rendezvous::connect_sealed(endpoint, seal, Clock::now() + kAttemptAtSuccessor);
              },
          .until = until,
          .pause = kFirstPause};
}

std::unique_ptr<CoordinatorLink> local_coordinator_at(EventLoop& loop, const LaunchRequest& request,
                                                      std::optional<AgentListener> agent_listener,
                                                      const std::string& address) {
  return std::make_unique<LocalCoordinator>(loop, Coordinator(policy_of(request), rendezvous::new_nonce),
                                            std::move(agent_listener), address, request.meeting.heartbeat_timeout);
}

/// Waits until `until` and returns 0, or returns the first of the signals `ending` that arrives.
int rest(EventLoop& loop, const std::vector<int>& ending, Clock::time_point until) {
  while (Clock::now() < until) {
    for (const int signal : loop.wait(until)) {
      if (std::ranges::find(ending, signal) != ending.end()) {
        return signal;
      }
    }
  }
  return 0;
}

}  // namespace

RemoteCoordinator::RemoteCoordinator(EventLoop& loop, rendezvous::Socket socket, milliseconds heartbeat_timeout,
                                     milliseconds first_timeout, rendezvous::Endpoint endpoint, Retry retry)
    : loop_(loop),
      heartbeat_timeout_(heartbeat_timeout),
      patience_(first_timeout),
      endpoint_(std::move(endpoint)),
      // A numeric address, since a slow name server would block this thread.
      connected_to_(by_address(socket.descriptor(), endpoint_)),
      next_heartbeat_(Clock::now()),
      retry_(std::move(retry)) {
  begin(std::move(socket));
}

void RemoteCoordinator::begin(rendezvous::Socket socket) {
  connection_.emplace(loop_, std::move(socket), [this] { receive(); });
  connection_->send(to_text(rendezvous::Hello{.role = "agent", .host = this_host_name()}));
  if (!retry_.first.empty()) {
    connection_->send(retry_.first);
  }
}

void RemoteCoordinator::reconnect() {
  retry_.due.reset();
  Result<rendezvous::Socket> socket = retry_.connect();
  if (socket) {
    begin(*std::move(socket));
  } else if (socket.error().kind == ErrorKind::Mismatch) {
    gone_ = CoordinatorLoss{not_ours(endpoint_, socket.error().reason).reason, true};
  } else if (listener_is_gone() || !schedule_retry()) {
    give_up();
  }
}

void RemoteCoordinator::report(const Report& given) {
  Report report = given;
  report.beat = beat_;
  const std::string text = to_text(report);
  if (const std::optional<Report> arrives = parse_report(text); arrives && arrives->join_request) {
    own_ = arrives->join_request->node;
    retry_.first = text;
  }
  connection_->send(text);
}

void RemoteCoordinator::receive() {
  while (!gone_) {
    const std::optional<std::string> text = connection_->next();
    if (!text) {
      break;
    }
    std::optional<Order> order = parse_order(*text);
    if (std::optional<std::string> reason = rendezvous::reason_of_refusal(*text)) {
      order = Order{.kind = Order::Kind::Refused, .reason = *std::move(reason)};
    }
    const bool older = text->find(R"("protocol":")") != std::string::npos;
    if (order && order->kind == Order::Kind::Refused && older) {
      order->reason = fmt::format("the agent at {} uses {}, not {}: it is another version of rollcall", where(),
                                  rendezvous::version_of(*text), rendezvous::kVersion);
    }
    if (!order || !take(*std::move(order))) {
      gone_ = CoordinatorLoss{fmt::format("the process at {} is not a rollcall agent of this version", where()), true};
      connection_->stop_receiving();
    }
  }
  if (connection_->broken() && !gone_ && !retry_.due) {
    retry_.unanswered = connection_->opened() ? retry_.unanswered + 1 : 0;
    if (connection_->proven() || !schedule_retry()) {
      give_up();
    }
  }
}

bool RemoteCoordinator::schedule_retry() {
  const bool comes = connection_->ended() && Clock::now() < retry_.until && retry_.unanswered < kMostUnanswered;
  if (comes) {
    retry_.due = Clock::now() + retry_.pause;
    retry_.pause = std::min(2 * retry_.pause, kLongestPause);
  }
  return comes;
}

bool RemoteCoordinator::listener_is_gone() const {
  return rendezvous::nobody_listens(connected_to_,
                                    Clock::now() + std::min(kAttemptAtSuccessor, heartbeat_timeout_ / 4));
}

void RemoteCoordinator::give_up() {
  if (listener_is_gone()) {
    gone_ = CoordinatorLoss{fmt::format("the coordinator at {} is gone", where())};
  } else if (!connection_->proven()) {
    gone_ = CoordinatorLoss{
        fmt::format("the process at {} does not know this run's secret, or is not a rollcall agent of this "
                    "version: where the nodes do not share HOME, all need the same "
                    "--rdzv-conf=secret=FILE",
                    where()),
        true};
  }
}

bool RemoteCoordinator::take(Order order) {
  understood_ = true;
  beat_ = std::max(beat_, order.beat);
  patience_ = heartbeat_timeout_;
  if (order.kind == Order::Kind::World) {
    world_ = std::move(order.generation);
    return true;
  }
  const bool names_one = order.kind == Order::Kind::Begin || order.kind == Order::Kind::Wait;
  if (names_one && order.generation.number == world_.number && order.generation.nonce == world_.nonce) {
    order.generation.world = world_.world;
    order.generation.unsettled = world_.unsettled;
  }
  if (order.kind == Order::Kind::Begin && !has_place_for(own_, order.generation)) {
    return false;
  }
  if (names_one && order.generation.number > 0 && order.generation.coordinator >= order.generation.world.size()) {
    return false;
  }
  orders_.push_back(std::move(order));
  return true;
}

std::vector<Order> RemoteCoordinator::take_orders() {
  for (const Order& order : orders_) {
    if (order.kind == Order::Kind::Begin) {
      newest_ = std::max(newest_, order.generation.number);
      next_heartbeat_ = Clock::now();  // acknowledge soon: until all nodes have, fewer failures are survivable
    }
  }
  return std::exchange(orders_, {});
}

void RemoteCoordinator::tick(Clock::time_point now) {
  if (retry_.due && !gone_) {
    if (now >= *retry_.due) {
      reconnect();
    }
    return;
  }
  if (now < next_heartbeat_ || gone_) {
    return;
  }
  next_heartbeat_ = now + heartbeat_timeout_ / 4;
  connection_->send(to_text(Report{.generation = newest_, .beat = beat_}));
  if (now - connection_->last_received() > patience_) {
    const double seconds = std::chrono::duration<double>(patience_).count();
    gone_ = CoordinatorLoss{
        .reason = understood_ ? fmt::format("the coordinator at {} was silent for {:g} s", where(), seconds)
                              : fmt::format("the process at {} sent no message of an agent for {:g} s: it is another "
                                            "program, or an agent that does not respond",
                                            where(), seconds),
        .silent = true};
  }
}

std::string RemoteCoordinator::own_address() const { return elastic::own_address(connection_->descriptor()); }

Result<MeetingResult> meet_agents(EventLoop& loop, const LaunchRequest& request, const PrintLine& print_line) {
  const MeetingRequest& meeting = request.meeting;
  if (meeting.alone) {
    const std::string address = !meeting.local_address.empty() ? meeting.local_address : "127.0.0.1";
    return MeetingResult{local_coordinator_at(loop, request, std::nullopt,
                                              meeting.workers_endpoint ? meeting.workers_endpoint->host : address)};
  }
  const rendezvous::Endpoint& endpoint = meeting.endpoint;
  const Clock::time_point began = Clock::now();
  const Clock::time_point deadline = began + meeting.join_timeout;
  const bool may_host = meeting.host ? *meeting.host : is_this_host(endpoint.host);
  std::string reported;
  for (milliseconds pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    if (may_host) {
      Result<rendezvous::Listener> listener = rendezvous::Listener::on_all_addresses(endpoint.port);
      if (listener) {
        return MeetingResult{
            local_coordinator_at(loop, request, AgentListener{*std::move(listener), seal_of(request), print_line},
                                 meeting.local_address.empty() ? endpoint.host : meeting.local_address)};
      }
      if (meeting.host) {
        return cannot_listen(listener.error(), meeting);
      }
    }
    Result<rendezvous::Socket> socket = rendezvous::connect_sealed(
        endpoint, seal_of(request), std::min<Clock::time_point>(deadline, Clock::now() + kAttempt));
    if (socket) {
      const milliseconds timeout = meeting.heartbeat_timeout;
      return MeetingResult{std::make_unique<RemoteCoordinator>(loop, *std::move(socket), timeout, timeout, endpoint,
                                                               retry_at(endpoint, request, deadline))};
    }
    const std::string& reason = socket.error().reason;
    if (socket.error().kind == ErrorKind::Mismatch) {
      return not_ours(endpoint, reason);
    }
    if (Clock::now() + pause >= deadline) {
      return unreachable(endpoint, reason, meeting.join_timeout);
    }
    if (reason != reported && Clock::now() - began > kStartTogether) {
      reported = reason;
      print_line(still_looking(endpoint, reported, meeting.join_timeout));
    }
    if (const int signal = rest(loop, request.signals, Clock::now() + pause); signal != 0) {
      return MeetingResult{nullptr, signal};
    }
  }
}

Result<std::unique_ptr<CoordinatorLink>> fail_over_to(EventLoop& loop, const LaunchRequest& request,
                                                      const Node& successor) {
  const rendezvous::Endpoint endpoint{successor.address, successor.port};
  Result<rendezvous::Socket> socket =
      rendezvous::connect_sealed(endpoint, seal_of(request), Clock::now() + kAttemptAtSuccessor);
  if (socket) {
    return std::unique_ptr<CoordinatorLink>(std::make_unique<RemoteCoordinator>(
        loop, *std::move(socket), request.meeting.heartbeat_timeout, reunion_timeout(request), endpoint,
        retry_at(endpoint, request, Clock::now() + reunion_timeout(request))));
  }
  return socket.error().kind == ErrorKind::Mismatch ? not_ours(endpoint, socket.error().reason)
                                                    : unreachable(endpoint, socket.error().reason, kAttemptAtSuccessor);
}

std::unique_ptr<CoordinatorLink> promote(EventLoop& loop, const LaunchRequest& request, rendezvous::Listener listener,
                                         const Generation& last, PrintLine print_line) {
  const std::string address = last.world.at(last.group_rank).address;
  return std::make_unique<LocalCoordinator>(loop,
                                            Coordinator(policy_of(request), rendezvous::new_nonce, last, Clock::now()),
                                            AgentListener{std::move(listener), seal_of(request), std::move(print_line)},
                                            address, request.meeting.heartbeat_timeout);
}

}  // namespace rollcall::elastic
