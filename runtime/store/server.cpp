#include "runtime/store/server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <set>
#include <string>
#include <system_error>

namespace rollcall::store {
namespace {

/// epoll's data of the descriptor that ends the thread; peers have ranks from 1.
constexpr std::uint32_t kStop = 0;

Error no_server(const std::string& reason) {
  return fail("store", "", "cannot be served: " + reason,
              "raising the limit of open files (ulimit -n) or of processes (ulimit -u)", ErrorKind::Unavailable);
}

bool add_to_epoll(int epoll, int descriptor, std::uint32_t rank) {
  epoll_event event{.events = EPOLLIN, .data = {.u32 = rank}};
  return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

}  // namespace

std::string left_key(std::uint32_t rank) { return "rollcall/left/" + std::to_string(rank); }
std::string closed_key(std::uint64_t number) { return "rollcall/closed/" + std::to_string(number); }

Result<std::shared_ptr<Server>> Server::serve(std::map<std::uint32_t, rendezvous::Socket> members, std::size_t most) {
  std::shared_ptr<Server> server(new Server(most));
  const Result<void> started = server->start(std::move(members));
  return started ? Result<std::shared_ptr<Server>>(std::move(server)) : started.error();
}

Result<void> Server::start(std::map<std::uint32_t, rendezvous::Socket>&& members) {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) {
    return no_server(errno_text(errno));
  }
  stop_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop_ < 0 || !add_to_epoll(epoll_, stop_, kStop)) {
    return no_server(errno_text(errno));
  }
  for (auto& [rank, socket] : members) {
    if (!add_to_epoll(epoll_, socket.descriptor(), rank)) {
      return no_server(errno_text(errno));
    }
    peers_.try_emplace(rank, Peer{rank, Channel(std::move(socket), kLongestRequest)});
  }
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return no_server(error.what());
  }
  return {};
}

Server::~Server() {
  close();
  for (const int descriptor : {epoll_, stop_}) {
    if (descriptor >= 0) {
      ::close(descriptor);
    }
  }
}

void Server::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    peers_.clear();
    for (const auto& [number, waiter] : waiters_) {
      waiter->changed.notify_one();
    }
  }
  if (thread_.joinable()) {
    eventfd_write(stop_, 1);
    thread_.join();
  }
}

Answer Server::carry_out(Request request, const Patience& patience) {
  std::unique_lock lock(mutex_);
  if (closed_) {
    return {.status = Answer::Status::Gone};
  }
  const Ticket ticket{0, ++asked_};
  Waiter waiter;
  waiters_.emplace(ticket.number, &waiter);
  deliver(table_.take(ticket, std::move(request)), nullptr);
  WaitLimit limit(patience);
  for (bool over = false; !waiter.answer && !closed_ && !over; over = limit.over()) {
    waiter.changed.wait_until(lock, limit.next());
  }
  waiters_.erase(ticket.number);
  if (waiter.answer) {
    return *std::move(waiter.answer);
  }
  table_.forget(ticket);
  return {.status = closed_ ? Answer::Status::Gone : Answer::Status::TimedOut};
}

void Server::run() {
  std::array<epoll_event, 64> events{};
  while (true) {
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
    const std::lock_guard lock(mutex_);
    for (int i = 0; i < count; ++i) {
      const std::uint32_t rank = events[static_cast<std::size_t>(i)].data.u32;
      if (rank == kStop) {
        return;
      }
      if (const auto peer = peers_.find(rank); peer != peers_.end()) {
        receive(peer->second);
      }
    }
  }
}

void Server::receive(Peer& peer) {
  if (!take_in(peer) || peer.channel.broken()) {
    hang_up(peer.rank);
  }
}

/// Handles requests until the answers no longer fit into the connection. Returns false where the peer is gone or
/// violates the protocol; its earlier requests remain in effect.
bool Server::take_in(Peer& peer) {
  bool there = send(peer);
  if (there && peer.waits_to_send) {
    return true;
  }
  there = peer.channel.take_arrived() && there;
  while (const std::optional<std::string> message = peer.channel.next()) {
    std::optional<Numbered<Request>> request = parse_request(*message);
    if (!request) {
      return false;
    }
    deliver(table_.take({peer.rank, request->number}, std::move(request->content)), &peer);
    there = send(peer) && there;
    if (there && peer.waits_to_send) {
      return true;
    }
  }
  return there;
}

/// Sends all answers that fit into the connections, except for those to `speaking`. A rank without room in its
/// connection gets its answers on a later event, and so does a rank that is gone, whose last requests may still be
/// unread.
void Server::deliver(Answers&& answers, const Peer* speaking) {
  std::set<std::uint32_t> told;
  for (auto& [ticket, answer] : answers) {
    const auto peer = peers_.find(ticket.rank);
    const auto waiter = ticket.rank == 0 ? waiters_.find(ticket.number) : waiters_.end();
    if (waiter != waiters_.end()) {
      waiter->second->answer = std::move(answer);
      waiter->second->changed.notify_one();
    } else if (peer != peers_.end()) {
      peer->second.answers.emplace_back(ticket.number, std::move(answer));
      told.insert(ticket.rank);
    }
  }
  for (const std::uint32_t rank : told) {
    Peer& peer = peers_.at(rank);
    if (&peer != speaking && !peer.waits_to_send) {
      (void)send(peer);
    }
  }
}

/// Sends answers; returns false where the peer is gone, which epoll reports. An answer that cannot be sent stays
/// queued.
bool Server::send(Peer& peer) const {
  bool there = true;
  do {
    for (; !peer.answers.empty() && !peer.channel.is_full(); peer.answers.pop_front()) {
      peer.channel.queue(encode(peer.answers.front().first, peer.answers.front().second));
    }
    there = peer.channel.flush();
  } while (there && !peer.answers.empty() && !peer.channel.has_unsent());
  if (peer.channel.has_unsent() != peer.waits_to_send) {
    peer.waits_to_send = !peer.waits_to_send;
    epoll_event event{.events = peer.waits_to_send ? EPOLLOUT : EPOLLIN, .data = {.u32 = peer.rank}};
    epoll_ctl(epoll_, EPOLL_CTL_MOD, peer.channel.descriptor(), &event);
  }
  return there;
}

void Server::hang_up(std::uint32_t rank) {
  table_.forget_rank(rank);
  peers_.erase(rank);
  const std::string key = closed_key(closed_connections_ + 1);
  deliver(table_.take({}, {.operation = Operation::Set,
                           .keys = {left_key(rank), key},
                           .values = {"1", std::to_string(rank)},
                           .quiet = true}),
          nullptr);
  const Answers there = table_.take({}, {Operation::Check, {key}});  // missing where the table is full
  closed_connections_ += there.front().second.number == 0 ? 0U : 1U;
}

}  // namespace rollcall::store
