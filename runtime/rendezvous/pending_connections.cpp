#include "runtime/rendezvous/pending_connections.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/base/result.h"
#include "runtime/rendezvous/port_owner.h"

namespace rollcall::rendezvous {
namespace {

/// Time limit for a hello.
constexpr std::chrono::seconds kHelloTimeout{5};
/// Limit per turn of the loop: their data is read before more are accepted, so that many legitimate peers never count
/// as kMostStrangers.
constexpr int kMostAccepted = 64;
/// Limit of pending unauthenticated connections, some 5 KB each.
constexpr std::size_t kMostPending = 256;
/// Time to answer an opening during which a connection is closed only after all older ones.
constexpr std::chrono::milliseconds kAnswerTime{100};
/// Pause after an error of the network or the system.
constexpr std::chrono::milliseconds kAfterRefusal{2};

/// Returns whether the error concerns the listener: accept(2) also returns network errors of one connection.
bool concerns_the_listener(int error) {
  return error == EBADF || error == EINVAL || error == ENOTSOCK || error == EMFILE || error == ENFILE;
}

}  // namespace

std::string to_text(const RejectedPeer& rejected) {
  return rejected.who + (rejected.knows_the_secret ? "" : ", which does not know the secret (rendezvous.secret)");
}

PendingConnections::PendingConnections(EventLoop& loop, Seal seal, std::size_t expected, OnHello on_hello,
                                       OnRejected on_rejected)
    : loop_(loop),
      seal_(std::move(seal)),
      most_(kMostPending + expected),
      on_hello_(std::move(on_hello)),
      on_rejected_(std::move(on_rejected)) {}

PendingConnections::~PendingConnections() {
  close_oldest(waiting_.size());
  for (const auto& [listener, flags] : listeners_) {
    loop_.forget(listener);
    fcntl(listener, F_SETFL, flags);
  }
}

void PendingConnections::listen(int listener) {
  const int flags = fcntl(listener, F_GETFL);
  fcntl(listener, F_SETFL, flags | O_NONBLOCK);
  listeners_.emplace_back(listener, flags);
  loop_.watch(listener, [this, listener] { accept_from(listener); });
}

void PendingConnections::accept_from(int listener) {
  for (int i = 0; i < kMostAccepted; ++i) {
    const int descriptor = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0) {
      cannot_accept(errno);
      return;
    }
    if (waiting_.size() >= most_) {
      close_oldest(1);
    }
    const std::uint64_t number = ++accepted_;
    waiting_.emplace(number, Waiting{Socket(descriptor, End::Server, seal_), Clock::now() + kHelloTimeout});
    loop_.watch(descriptor, [this, number] { receive(number); });
    receive(number);  // data sent with the connection counts before it is judged silent
  }
}

void PendingConnections::cannot_accept(int error) {
  if (error == EAGAIN || error == EWOULDBLOCK) {
    return;
  }
  if ((error == EMFILE || error == ENFILE) && !waiting_.empty()) {
    close_oldest((waiting_.size() + 3) / 4);  // so that a flood costs one turn for many connections
    return;
  }
  problem_ = concerns_the_listener(error) ? errno_text(error) : "";
  std::this_thread::sleep_for(kAfterRefusal);
}

void PendingConnections::receive(std::uint64_t number) {
  const Entry entry = waiting_.find(number);
  Socket& connection = entry->second.socket;
  FrameBuffer& frames = connection.frames();
  const bool alive = connection.take_arrived(frames.most(kLongestHello));
  if (const std::optional<std::string> text = frames.next()) {
    loop_.forget(connection.descriptor());
    Socket known = std::move(connection);
    waiting_.erase(entry);
    receive_hello(std::move(known), *text);
  } else if (!alive || frames.broken(kLongestHello)) {
    if (frames.opened() && frames.broken()) {
      on_rejected_({peer_address(connection.descriptor())});
    }
    forget(entry);
  }
}

void PendingConnections::receive_hello(Socket connection, const std::string& text) {
  if (const std::string rejected = foreign_client(connection.descriptor()); !rejected.empty()) {
    on_rejected_({rejected, true});
    return;
  }
  if (const std::optional<Hello> hello = parse_hello(text)) {
    on_hello_(std::move(connection), *hello);
  } else if (const std::string reason = refusal_of_another_version(text); !reason.empty()) {
    (void)connection.send_frame(refusal(reason), Clock::now());  // a few bytes into an empty buffer do not block
  }
}

void PendingConnections::pause() {
  for (const auto& [listener, flags] : listeners_) {
    loop_.forget(listener);
  }
  paused_ = true;
}

void PendingConnections::tick(Clock::time_point now) {
  if (std::exchange(paused_, false)) {
    problem_.clear();
    for (const auto& entry : listeners_) {
      loop_.watch(entry.first, [this, listener = entry.first] { accept_from(listener); });
    }
  }
  for (Entry entry = waiting_.begin(); entry != waiting_.end() && entry->second.until < now;) {
    entry = forget(entry);
  }
}

/// Closes the oldest connections, whatever they have sent: anyone can send an opening, and a legitimate peer needs a
/// moment for it. Among connections younger than that moment, silent ones are closed first.
void PendingConnections::close_oldest(std::size_t count) {
  const Clock::time_point long_ago = Clock::now() + kHelloTimeout - kAnswerTime;
  while (count > 0 && !waiting_.empty() && waiting_.begin()->second.until < long_ago) {
    forget(waiting_.begin());
    --count;
  }
  for (const bool opened : {false, true}) {
    for (Entry entry = waiting_.begin(); entry != waiting_.end() && count > 0;) {
      const bool is_meant = entry->second.socket.frames().opened() == opened;
      count -= is_meant ? 1 : 0;
      entry = is_meant ? forget(entry) : std::next(entry);
    }
  }
}

PendingConnections::Entry PendingConnections::forget(Entry entry) {
  loop_.forget(entry->second.socket.descriptor());
  return waiting_.erase(entry);
}

}  // namespace rollcall::rendezvous
