#include "runtime/elastic/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace rollcall::elastic {

namespace {

/// From one other end in one turn of the loop, so that the rest have theirs: some hundred small frames.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 14;
/// Of the memory of what was sent: nobody needs a large order's again soon.
constexpr std::size_t kMostKept = std::size_t{1} << 14;
bool says_ended(int error) { return error == 0 || error == EPIPE || error == ECONNRESET; }

/// For an other end that does not read: two orders of any length.
constexpr std::size_t kMostUnsent = 2 * Connection::kLongest;

}  // namespace

Connection::Connection(EventLoop& loop, rendezvous::Socket socket, EventLoop::Ready ready, std::size_t longest)
    : loop_(loop), socket_(std::move(socket)), ready_(std::move(ready)), longest_(longest) {
  loop_.watch(socket_.descriptor(), [this] { progress(); });
}

Connection::~Connection() { loop_.forget(socket_.descriptor()); }

void Connection::send_frame(std::string_view frame) {
  outgoing_.erase(0, std::exchange(sent_, 0));
  outgoing_ += frame.substr(flushed() ? write(frame) : 0);
  broken_ |= outgoing_.size() > kMostUnsent;
  flush();
}

std::size_t Connection::write(std::string_view bytes) {
  std::size_t written = 0;
  while (written < bytes.size() && !broken_) {
    const ssize_t count = ::send(socket_.descriptor(), bytes.data() + written, bytes.size() - written, MSG_NOSIGNAL);
    if (count >= 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      broken_ = true;
      ended_ |= says_ended(errno);
    }
  }
  return written;
}

void Connection::flush() {
  sent_ += write(std::string_view(outgoing_).substr(sent_));
  if (flushed() && outgoing_.capacity() > kMostKept) {
    std::string().swap(outgoing_);  // assignment would keep the memory
    sent_ = 0;
  }
  if (waits_to_write_ != !flushed()) {
    waits_to_write_ = !flushed();
    loop_.watch_writing(socket_.descriptor(), waits_to_write_ && !broken_);
  }
}

void Connection::progress() {
  flush();
  rendezvous::FrameBuffer& frames = socket_.frames();
  const std::size_t before = frames.size();
  errno = 0;
  const bool open = socket_.take_arrived(std::min(longest_, before + kMostAtOnce));
  ended_ |= !open && says_ended(errno);
  if (frames.size() > before) {
    last_heard_ = Clock::now();
  }
  if (!hears_) {
    frames.clear();
  }
  broken_ |= !open || frames.broken(longest_ - rendezvous::kFrameHeader);
  if (broken_) {
    loop_.forget(socket_.descriptor());  // its end can be read again and again
  }
  ready_();
}

std::optional<std::string> Connection::next() { return socket_.frames().next(); }

void Connection::stop_hearing() {
  hears_ = false;
  socket_.frames().clear();
}

void Connection::end_sending() { shutdown(socket_.descriptor(), SHUT_WR); }

}  // namespace rollcall::elastic
