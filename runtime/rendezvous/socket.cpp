#include "runtime/rendezvous/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <utility>

#include "runtime/base/result.h"

namespace rollcall::rendezvous {
namespace {

constexpr const char* kClosed = "the peer closed the connection";
constexpr const char* kNoRollcall = "the peer is not a rollcall process that knows the secret";

Error lost(const std::string& reason) {
  return fail("connection", "", reason, "checking the other node", ErrorKind::Unavailable);
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

/// Runs one send or recv. Returns the number of bytes; unset where the connection is broken, with the reason in
/// `reason`.
template <typename Move>
std::optional<std::size_t> moved(Move move, std::string& reason) {
  const ssize_t count = move();
  if (count > 0) {
    return static_cast<std::size_t>(count);
  }
  if (count < 0 && would_block(errno)) {
    return 0;
  }
  reason = count == 0 ? kClosed : errno_text(errno);
  return std::nullopt;
}

std::optional<std::size_t> send_some(const Socket& to, std::span<const std::byte> bytes, std::string& reason) {
  return moved([&] { return send(to.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }, reason);
}

std::optional<std::size_t> receive_some(const Socket& from, std::span<std::byte> bytes, std::string& reason) {
  return moved([&] { return recv(from.descriptor(), bytes.data(), bytes.size(), 0); }, reason);
}

/// Waits for events; returns false at the deadline.
bool wait_for(int descriptor, short events, Clock::time_point deadline) {
  pollfd waiting{descriptor, events, 0};
  return poll(&waiting, 1, milliseconds_until(deadline)) != 0;
}

}  // namespace

Socket::Socket(int descriptor) : descriptor_(descriptor) {
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

Socket::Socket(int descriptor, End end, Seal seal) : Socket(descriptor) { frames_ = FrameBuffer(end, std::move(seal)); }

Socket::Socket(Socket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), frames_(std::exchange(other.frames_, {})) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(frames_, other.frames_);
  return *this;
}

Socket::~Socket() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

bool Socket::take_arrived(std::size_t most) {
  std::array<char, 16384> piece{};
  while (!frames_.broken() && frames_.size() < most) {
    const std::size_t asked = std::min(piece.size(), most - frames_.size());
    const ssize_t count = recv(descriptor_, piece.data(), asked, 0);
    if (count <= 0) {
      return count < 0 && would_block(errno) && flush();
    }
    frames_.append({piece.data(), static_cast<std::size_t>(count)});
    if (static_cast<std::size_t>(count) < asked) {
      break;  // everything was read; another call would double the cost of short messages
    }
  }
  return flush();  // after data that has already arrived
}

bool Socket::flush() {
  while (!frames_.outgoing().empty()) {
    const ssize_t count = send(descriptor_, frames_.outgoing().data(), frames_.outgoing().size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EINTR) {
      return would_block(errno);
    }
    frames_.sent(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  }
  return true;
}

Result<void> Socket::send_frame(std::string_view text, Clock::time_point deadline) {
  frames_.queue(text);
  bool open = flush();
  while (open && frames_.unsent() > 0) {
    const bool sends = !frames_.outgoing().empty();  // otherwise waits for the peer's opening
    if (!wait_for(descriptor_, sends ? POLLOUT : POLLIN, deadline)) {
      return lost("no answer in time");
    }
    open = sends ? flush() : take_arrived();
    if (frames_.broken()) {
      return lost(kNoRollcall);
    }
  }
  return open ? Result<void>() : lost(kClosed);
}

Result<std::string> Socket::receive_frame(Clock::time_point deadline) {
  bool open = flush();
  while (true) {
    // Data that arrived before the end of the connection still counts.
    if (std::optional<std::string> text = frames_.next()) {
      return *std::move(text);
    }
    if (frames_.broken() || !open) {
      return lost(open ? kNoRollcall : kClosed);
    }
    const bool sends = !frames_.outgoing().empty();
    if (!wait_for(descriptor_, static_cast<short>(sends ? POLLIN | POLLOUT : POLLIN), deadline)) {
      return lost("no answer in time");
    }
    open = take_arrived();
  }
}

Result<void> transfer(const Socket& to, std::span<const std::byte> outgoing, const Socket& from,
                      std::span<std::byte> incoming, Clock::time_point deadline) {
  std::string reason;
  while (!outgoing.empty() || !incoming.empty()) {
    std::array<pollfd, 2> waiting{pollfd{outgoing.empty() ? -1 : to.descriptor(), POLLOUT, 0},
                                  pollfd{incoming.empty() ? -1 : from.descriptor(), POLLIN, 0}};
    if (poll(waiting.data(), waiting.size(), milliseconds_until(deadline)) == 0) {
      return lost("no answer in time");
    }
    if (waiting[0].revents != 0) {
      const std::optional<std::size_t> sent = send_some(to, outgoing, reason);
      if (!sent) {
        return lost(reason);
      }
      outgoing = outgoing.subspan(*sent);
    }
    if (waiting[1].revents != 0) {
      const std::optional<std::size_t> received = receive_some(from, incoming, reason);
      if (!received) {
        return lost(reason);
      }
      incoming = incoming.subspan(*received);
    }
  }
  return {};
}

}  // namespace rollcall::rendezvous
