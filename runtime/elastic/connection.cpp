#include "runtime/elastic/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace rollcall::elastic {

namespace {

/// Bytes read from one peer per turn of the loop, some hundred small frames, so that the other peers are served too.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 14;
bool says_ended(int error) { return error == 0 || error == EPIPE || error == ECONNRESET; }

/// Bytes buffered for a peer that does not read: two orders of any length.
constexpr std::size_t kMostUnsent = 2 * Connection::kLongest;

}  // namespace

Connection::Connection(EventLoop& loop, rendezvous::Socket socket, EventLoop::Ready ready, std::size_t longest)
    : loop_(loop), socket_(std::move(socket)), ready_(std::move(ready)), longest_(longest) {
  loop_.watch(socket_.descriptor(), [this] { progress(); });
}

Connection::~Connection() { loop_.forget(socket_.descriptor()); }

void Connection::send(std::string_view text) {
  socket_.frames().queue(text);
  broken_ |= frames().unsent() > kMostUnsent;
  flush();
}

void Connection::flush() {
  errno = 0;
  if (!broken_ && !socket_.flush()) {
    broken_ = true;
    ended_ |= says_ended(errno);
  }
  const bool waits = !frames().outgoing().empty() && !broken_;
  if (std::exchange(waits_to_write_, waits) != waits) {
    loop_.watch_writing(socket_.descriptor(), waits);
  }
}

void Connection::progress() {
  rendezvous::FrameBuffer& frames = socket_.frames();
  const std::size_t before = frames.size();
  errno = 0;
  const bool open = socket_.take_arrived(std::min(frames.most(longest_), before + kMostAtOnce));
  ended_ |= !open && says_ended(errno);
  if (frames.size() > before) {
    last_received_ = Clock::now();
  }
  if (!receives_) {
    frames.clear();
  }
  broken_ |= !open || frames.broken(longest_);
  flush();
  if (broken_) {
    loop_.forget(socket_.descriptor());  // the descriptor would stay readable
  }
  ready_();
}

std::optional<std::string> Connection::next() { return socket_.frames().next(); }

void Connection::stop_receiving() {
  receives_ = false;
  socket_.frames().clear();
}

void Connection::end_sending() { shutdown(socket_.descriptor(), SHUT_WR); }

}  // namespace rollcall::elastic
