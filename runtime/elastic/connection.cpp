#include "runtime/elastic/connection.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace rollcall::elastic {

Connection::Connection(EventLoop& loop, rendezvous::Socket socket, EventLoop::Ready ready)
    : loop_(loop), socket_(std::move(socket)), ready_(std::move(ready)) {
  loop_.watch(socket_.descriptor(), [this] { progress(); });
}

Connection::~Connection() { loop_.forget(socket_.descriptor()); }

void Connection::send(std::string_view text) {
  outgoing_ += rendezvous::encode_frame(text);
  flush();
}

void Connection::flush() {
  while (!outgoing_.empty() && !broken_) {
    const ssize_t count = ::send(socket_.descriptor(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      outgoing_.erase(0, static_cast<std::size_t>(count));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      broken_ = true;
    }
  }
  if (waits_to_write_ != !outgoing_.empty()) {
    waits_to_write_ = !outgoing_.empty();
    loop_.watch_writing(socket_.descriptor(), waits_to_write_ && !broken_);
  }
}

void Connection::progress() {
  flush();
  const std::size_t before = socket_.frames().size();
  if (!socket_.take_arrived() || socket_.frames().broken()) {
    broken_ = true;
  }
  if (socket_.frames().size() > before) {
    last_heard_ = Clock::now();
  }
  ready_();
}

std::optional<std::string> Connection::next() { return socket_.frames().next(); }

void Connection::end_sending() { shutdown(socket_.descriptor(), SHUT_WR); }

}  // namespace rollcall::elastic
