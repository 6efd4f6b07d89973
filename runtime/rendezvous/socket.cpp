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
#include <utility>

#include "runtime/base/result.h"

namespace rollcall::rendezvous {
namespace {

Error lost(const std::string& reason) {
  return fail("connection", "", reason, "looking at the other node", ExitCode::Unavailable);
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

/// One send or recv: how many bytes moved, nothing where the connection is broken; `reason` says why.
template <typename Move>
std::optional<std::size_t> moved(Move move, std::string& reason) {
  const ssize_t count = move();
  if (count > 0) {
    return static_cast<std::size_t>(count);
  }
  if (count < 0 && would_block(errno)) {
    return 0;
  }
  reason = count == 0 ? "the other end closed the connection" : errno_text(errno);
  return std::nullopt;
}

std::optional<std::size_t> send_some(const Socket& to, std::span<const std::byte> bytes, std::string& reason) {
  return moved([&] { return send(to.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }, reason);
}

std::optional<std::size_t> receive_some(const Socket& from, std::span<std::byte> bytes, std::string& reason) {
  return moved([&] { return recv(from.descriptor(), bytes.data(), bytes.size(), 0); }, reason);
}

}  // namespace

std::string encode_frame(std::string_view text) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>((text.size() >> shift) & 0xffU);
  }
  return bytes.append(text);
}

void FrameBuffer::append(std::string_view bytes) {
  bytes_.erase(0, std::exchange(taken_, 0));
  bytes_ += bytes;
}

void FrameBuffer::clear() {
  bytes_.clear();
  taken_ = 0;
}

std::optional<std::size_t> FrameBuffer::length() const {
  if (size() < kFrameHeader) {
    return std::nullopt;
  }
  std::size_t length = 0;
  for (std::size_t i = 0; i < kFrameHeader; ++i) {
    length = (length << 8) | static_cast<unsigned char>(bytes_[taken_ + i]);
  }
  return length;
}

bool FrameBuffer::broken(std::size_t longest) const { return length().value_or(0) > longest; }

std::optional<std::string> FrameBuffer::next() {
  const std::optional<std::size_t> text_size = length();
  if (!text_size || broken() || size() < kFrameHeader + *text_size) {
    return std::nullopt;
  }
  std::string text = bytes_.substr(taken_ + kFrameHeader, *text_size);
  taken_ += kFrameHeader + *text_size;
  return text;
}

Socket::Socket(int descriptor) : descriptor_(descriptor) {
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

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
    const ssize_t count = recv(descriptor_, piece.data(), std::min(piece.size(), most - frames_.size()), 0);
    if (count <= 0) {
      return count < 0 && would_block(errno);
    }
    frames_.append({piece.data(), static_cast<std::size_t>(count)});
  }
  return true;  // what is there already comes first
}

Result<void> Socket::send_frame(std::string_view text, Clock::time_point deadline) {
  const std::string bytes = encode_frame(text);
  return transfer(*this, std::as_bytes(std::span(bytes)), *this, {}, deadline);
}

Result<std::string> Socket::receive_frame(Clock::time_point deadline) {
  while (true) {
    if (std::optional<std::string> text = frames_.next()) {
      return *std::move(text);
    }
    if (frames_.broken()) {
      return lost("the other end is no rollcall");
    }
    pollfd waiting{descriptor_, POLLIN, 0};
    if (poll(&waiting, 1, milliseconds_until(deadline)) == 0) {
      return lost("no answer in time");
    }
    // What arrived together with the end of the connection still counts.
    if (!take_arrived()) {
      std::optional<std::string> last = frames_.next();
      return last ? Result<std::string>(*std::move(last)) : lost("the other end closed the connection");
    }
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

Result<Socket> accept_one(int descriptor, Clock::time_point deadline) {
  while (true) {
    pollfd waiting{descriptor, POLLIN, 0};
    if (poll(&waiting, 1, milliseconds_until(deadline)) == 0) {
      return lost("nobody connected in time");
    }
    const int accepted = accept4(descriptor, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted >= 0) {
      return Socket(accepted);
    }
    if (!would_block(errno) && errno != ECONNABORTED) {
      return lost(errno_text(errno));
    }
  }
}

}  // namespace rollcall::rendezvous
