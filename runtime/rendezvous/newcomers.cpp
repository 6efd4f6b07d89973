#include "runtime/rendezvous/newcomers.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/base/result.h"

namespace rollcall::rendezvous {
namespace {

/// For a newcomer to say who it is.
constexpr std::chrono::seconds kToSpeak{5};
/// In one turn: enough for the ranks of many nodes, and over in milliseconds.
constexpr int kMostAccepted = 256;
/// After what the network or the system refused.
constexpr std::chrono::milliseconds kAfterRefusal{2};

enum class Accepted { One, NobodyWaits, NoDescriptor, Refused };

/// From `listener`; whatever happened to one that left before it was accepted, the next may do.
Accepted accept_next(int listener, Socket& socket) {
  const int descriptor = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (descriptor >= 0) {
    socket = Socket(descriptor);
    return Accepted::One;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    return Accepted::NobodyWaits;
  }
  return errno == EMFILE || errno == ENFILE ? Accepted::NoDescriptor : Accepted::Refused;
}

/// accept(2) also gives errors of the network, which concern one connection.
bool concerns_the_listener(int error) {
  return error == EBADF || error == EINVAL || error == ENOTSOCK || error == EMFILE || error == ENFILE;
}

}  // namespace

std::string Newcomers::turn(int listener, const Greet& greet) {
  Accepted accepted = Accepted::One;
  for (int i = 0; i < kMostAccepted && accepted == Accepted::One; ++i) {
    Socket socket;
    accepted = accept_next(listener, socket);
    if (accepted == Accepted::One) {
      waiting_.push_back({std::move(socket), Clock::now() + kToSpeak});
    }
  }
  const int error = errno;
  const std::size_t before = waiting_.size();
  hear_all(greet);
  if (accepted == Accepted::NoDescriptor && before > 0) {
    if (waiting_.size() == before) {
      close_silent();
    }
    return "";
  }
  if (accepted == Accepted::NoDescriptor || accepted == Accepted::Refused) {
    std::this_thread::sleep_for(kAfterRefusal);
    return concerns_the_listener(error) ? errno_text(error) : "";
  }
  return "";
}

void Newcomers::hear_all(const Greet& greet) {
  for (auto& [newcomer, until] : waiting_) {
    const bool alive = newcomer.take_arrived(longest_);
    if (const std::optional<std::string> text = newcomer.frames().next()) {
      greet(std::exchange(newcomer, Socket()), *text);
    } else if (!alive || newcomer.frames().broken() || newcomer.frames().size() >= longest_) {
      newcomer = Socket();
    }
  }
  std::erase_if(waiting_, [now = Clock::now()](const Waiting& newcomer) {
    return !newcomer.socket.is_open() || newcomer.until < now;
  });
}

/// A quarter of them: a flood of silent ones costs a turn for many, not for each.
void Newcomers::close_silent() {
  const std::size_t count = (waiting_.size() + 3) / 4;
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
}

void Newcomers::add_to(std::vector<pollfd>& waiting) const {
  for (const Waiting& newcomer : waiting_) {
    waiting.push_back({newcomer.socket.descriptor(), POLLIN, 0});
  }
}

}  // namespace rollcall::rendezvous
