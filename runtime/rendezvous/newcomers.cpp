#include "runtime/rendezvous/newcomers.h"

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
constexpr std::chrono::seconds kToSpeak{5};
/// Limit per turn of the loop: their data is read before more are accepted, so that many legitimate peers never count
/// as kMostStrangers.
constexpr int kMostAccepted = 64;
/// Limit of pending unauthenticated connections, some 5 KB each.
constexpr std::size_t kMostStrangers = 256;
/// Time to answer an opening during which a connection is closed only after all older ones.
constexpr std::chrono::milliseconds kToAnswer{100};
/// Pause after an error of the network or the system.
constexpr std::chrono::milliseconds kAfterRefusal{2};

/// Returns whether the error concerns the listener: accept(2) also returns network errors of one connection.
bool concerns_the_listener(int error) {
  return error == EBADF || error == EINVAL || error == ENOTSOCK || error == EMFILE || error == ENFILE;
}

}  // namespace

std::string to_text(const Stranger& stranger) {
  return stranger.who + (stranger.knows_the_secret ? "" : ", which does not know the secret (rendezvous.secret)");
}

Newcomers::Newcomers(EventLoop& loop, Seal seal, std::size_t expected, Greet greet, SendAway send_away)
    : loop_(loop),
      seal_(std::move(seal)),
      most_(kMostStrangers + expected),
      greet_(std::move(greet)),
      send_away_(std::move(send_away)) {}

Newcomers::~Newcomers() {
  close_longest(waiting_.size());
  for (const auto& [listener, flags] : listeners_) {
    loop_.forget(listener);
    fcntl(listener, F_SETFL, flags);
  }
}

void Newcomers::listen(int listener) {
  const int flags = fcntl(listener, F_GETFL);
  fcntl(listener, F_SETFL, flags | O_NONBLOCK);
  listeners_.emplace_back(listener, flags);
  loop_.watch(listener, [this, listener] { accept_from(listener); });
}

void Newcomers::accept_from(int listener) {
  for (int i = 0; i < kMostAccepted; ++i) {
    const int descriptor = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0) {
      cannot_accept(errno);
      return;
    }
    if (waiting_.size() >= most_) {
      close_longest(1);
    }
    const std::uint64_t number = ++came_;
    waiting_.emplace(number, Waiting{Socket(descriptor, End::Server, seal_), Clock::now() + kToSpeak});
    loop_.watch(descriptor, [this, number] { hear(number); });
    hear(number);  // data sent with the connection counts before it is judged silent
  }
}

void Newcomers::cannot_accept(int error) {
  if (error == EAGAIN || error == EWOULDBLOCK) {
    return;
  }
  if ((error == EMFILE || error == ENFILE) && !waiting_.empty()) {
    close_longest((waiting_.size() + 3) / 4);  // so that a flood costs one turn for many connections
    return;
  }
  problem_ = concerns_the_listener(error) ? errno_text(error) : "";
  std::this_thread::sleep_for(kAfterRefusal);
}

void Newcomers::hear(std::uint64_t number) {
  const Place place = waiting_.find(number);
  Socket& newcomer = place->second.socket;
  FrameBuffer& frames = newcomer.frames();
  const bool alive = newcomer.take_arrived(frames.most(kLongestHello));
  if (const std::optional<std::string> text = frames.next()) {
    loop_.forget(newcomer.descriptor());
    Socket known = std::move(newcomer);
    waiting_.erase(place);
    hear_hello(std::move(known), *text);
  } else if (!alive || frames.broken(kLongestHello)) {
    if (frames.opened() && frames.broken()) {
      send_away_({peer_address(newcomer.descriptor())});
    }
    forget(place);
  }
}

void Newcomers::hear_hello(Socket newcomer, const std::string& text) {
  if (const std::string stranger = stranger_who_connected(newcomer.descriptor()); !stranger.empty()) {
    send_away_({stranger, true});
    return;
  }
  if (const std::optional<Hello> hello = parse_hello(text)) {
    greet_(std::move(newcomer), *hello);
  } else if (const std::string reason = refusal_of_another_version(text); !reason.empty()) {
    (void)newcomer.send_frame(refusal(reason), Clock::now());  // a few bytes into an empty buffer do not block
  }
}

void Newcomers::pause() {
  for (const auto& [listener, flags] : listeners_) {
    loop_.forget(listener);
  }
  paused_ = true;
}

void Newcomers::tick(Clock::time_point now) {
  if (std::exchange(paused_, false)) {
    problem_.clear();
    for (const auto& entry : listeners_) {
      loop_.watch(entry.first, [this, listener = entry.first] { accept_from(listener); });
    }
  }
  for (Place place = waiting_.begin(); place != waiting_.end() && place->second.until < now;) {
    place = forget(place);
  }
}

/// Closes the oldest connections, whatever they have sent: anyone can send an opening, and a legitimate peer needs a
/// moment for it. Among connections younger than that moment, silent ones are closed first.
void Newcomers::close_longest(std::size_t count) {
  const Clock::time_point long_ago = Clock::now() + kToSpeak - kToAnswer;
  while (count > 0 && !waiting_.empty() && waiting_.begin()->second.until < long_ago) {
    forget(waiting_.begin());
    --count;
  }
  for (const bool opened : {false, true}) {
    for (Place place = waiting_.begin(); place != waiting_.end() && count > 0;) {
      const bool is_meant = place->second.socket.frames().opened() == opened;
      count -= is_meant ? 1 : 0;
      place = is_meant ? forget(place) : std::next(place);
    }
  }
}

Newcomers::Place Newcomers::forget(Place place) {
  loop_.forget(place->second.socket.descriptor());
  return waiting_.erase(place);
}

}  // namespace rollcall::rendezvous
