#include "runtime/rendezvous/newcomers.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/base/result.h"
#include "runtime/rendezvous/port_owner.h"

namespace rollcall::rendezvous {
namespace {

/// For a newcomer to say who it is.
constexpr std::chrono::seconds kToSpeak{5};
/// In one turn: enough for the ranks of many nodes, and over in milliseconds.
constexpr int kMostAccepted = 256;
/// Strangers that wait at a time: some 5 KB each.
constexpr std::size_t kMostStrangers = 1024;
/// After what the network or the system refused.
constexpr std::chrono::milliseconds kAfterRefusal{2};

enum class Accepted { One, NobodyWaits, NoDescriptor, Refused };

/// From `listener`; whatever happened to one that left before it was accepted, the next may do.
Accepted accept_next(int listener, const Seal& seal, Socket& socket) {
  const int descriptor = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (descriptor >= 0) {
    socket = Socket(descriptor, End::Server, seal);
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

Newcomers::Newcomers(Seal seal, std::size_t longest, std::size_t expected)
    : seal_(std::move(seal)), longest_(longest), most_(kMostStrangers + expected) {}

std::string Newcomers::turn(int listener, const Greet& greet) {
  Accepted accepted = Accepted::One;
  for (int i = 0; i < kMostAccepted && accepted == Accepted::One; ++i) {
    Socket socket;
    accepted = accept_next(listener, seal_, socket);
    if (accepted == Accepted::One) {
      waiting_.push_back({std::move(socket), Clock::now() + kToSpeak});
    }
  }
  const int error = errno;
  const std::size_t before = waiting_.size();
  hear_all(greet);
  if (waiting_.size() > most_) {
    close_longest(waiting_.size() - most_);
  }
  if (accepted == Accepted::NoDescriptor && before > 0) {
    if (waiting_.size() == before) {
      close_longest((before + 3) / 4);  // a flood costs a turn for many, not for each
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
  for (Waiting& newcomer : waiting_) {
    hear(newcomer.socket, greet);
  }
  std::erase_if(waiting_, [now = Clock::now()](const Waiting& newcomer) {
    return !newcomer.socket.is_open() || newcomer.until < now;
  });
}

void Newcomers::hear(Socket& newcomer, const Greet& greet) {
  FrameBuffer& frames = newcomer.frames();
  const bool alive = newcomer.take_arrived(frames.most(longest_));
  if (const std::optional<std::string> text = frames.next()) {
    const std::string stranger = stranger_who_connected(newcomer.descriptor());
    Socket known = std::exchange(newcomer, Socket());
    if (stranger.empty()) {
      greet(std::move(known), *text);
    } else {
      sent_away_ = stranger;
    }
  } else if (!alive || frames.broken(longest_)) {
    if (frames.opened() && frames.broken()) {
      sent_away_ = peer_address(newcomer.descriptor()) + ", which does not know the secret (rendezvous.secret)";
    }
    newcomer = Socket();
  }
}

void Newcomers::close_longest(std::size_t count) {
  std::stable_partition(waiting_.begin(), waiting_.end(),
                        [](Waiting& newcomer) { return !newcomer.socket.frames().opened(); });
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
}

void Newcomers::add_to(std::vector<pollfd>& waiting) const {
  for (const Waiting& newcomer : waiting_) {
    waiting.push_back({newcomer.socket.descriptor(), POLLIN, 0});
  }
}

}  // namespace rollcall::rendezvous
