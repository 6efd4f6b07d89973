#include "runtime/base/first_on_host.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <thread>

#include "runtime/base/thread_without_signals.h"

namespace rollcall {
namespace {

struct Address {
  sockaddr_un place{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&place); }
};

Address address_of(const std::string& occasion) {
  const std::string text = "rollcall-first-" + std::to_string(::geteuid()) + "-" + occasion;
  Address address;
  address.place.sun_family = AF_UNIX;
  // A first byte of 0: the abstract namespace.
  const std::size_t size = std::min(text.size(), sizeof address.place.sun_path - 1);
  std::memcpy(address.place.sun_path + 1, text.data(), size);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return address;
}

/// Connects to the socket of that name, and retries while its owner does not listen yet.
int connect_to(int descriptor, const Address& address) {
  constexpr int kTries = 20;
  int status = -1;
  for (int tried = 0; tried < kTries && status != 0; ++tried) {
    status = ::connect(descriptor, address.get(), address.length);
    if (status != 0 && errno != ECONNREFUSED) {
      break;
    }
    if (status != 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return status;
}

/// Returns whether the process at the other end of a connection is of this user.
bool is_of_this_user(int connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

/// Returns a connection to the socket of that name, which the caller closes; -1 where it belongs to another user or no
/// longer exists.
int connection_to_own(const Address& address) {
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) {
    return -1;
  }
  if (connect_to(descriptor, address) == 0 && is_of_this_user(descriptor)) {
    return descriptor;
  }
  ::close(descriptor);
  return -1;
}

bool is_this_users(const Address& address) {
  const int descriptor = connection_to_own(address);
  if (descriptor >= 0) {
    ::close(descriptor);
  }
  return descriptor >= 0;
}

/// Returns a listening socket of that name, or -1 with errno set.
int claim(const Address& address) {
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0 ||
      (::bind(descriptor, address.get(), address.length) == 0 && ::listen(descriptor, SOMAXCONN) == 0)) {
    return descriptor;
  }
  const int code = errno;
  ::close(descriptor);
  errno = code;
  return -1;
}

constexpr std::size_t kLongestAnswer = 4096;
constexpr char kAnswered = '=';  // before an answer, which may be empty

/// Accepts a connection and answers it: processes of other users can connect as well, and get nothing. Returns whether
/// there was one.
bool answer_one(int listener, const std::string& answer) {
  const int descriptor = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (descriptor < 0) {
    return false;
  }
  if (is_of_this_user(descriptor)) {
    (void)::send(descriptor, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  ::close(descriptor);
  return true;
}

/// Answers the processes that wait already: the caller may execute another program at once, which ends the thread that
/// answers later ones. No more than can wait: another user who connects again and again does not delay the caller.
void answer_waiting(int listener, const std::string& answer) {
  pollfd waiting{listener, POLLIN, 0};
  for (int left = SOMAXCONN; left > 0 && ::poll(&waiting, 1, 0) > 0; --left) {
    (void)answer_one(listener, answer);
  }
}

void answer_all(int listener, const std::string& answer) {
  while (answer_one(listener, answer) || errno == EINTR || errno == ECONNABORTED) {
  }
}

/// Receives the answer. Nothing where that takes longer than `patience` or the other process ended without an answer.
std::optional<std::string> read_answer(int descriptor, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::string text;
  std::array<char, kLongestAnswer> part{};
  while (text.size() <= kLongestAnswer) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd readable{descriptor, POLLIN, 0};
    if (left <= 0 || ::poll(&readable, 1, static_cast<int>(left)) <= 0) {
      return std::nullopt;
    }
    const ssize_t got = ::recv(descriptor, part.data(), part.size(), 0);
    if (got <= 0) {
      return got == 0 && text.starts_with(kAnswered) ? std::optional(text.substr(1)) : std::nullopt;
    }
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  return std::nullopt;
}

}  // namespace

bool is_first_on_host(const std::string& occasion) {
  const Address address = address_of(occasion);
  if (claim(address) >= 0) {
    return true;  // the socket stays open
  }
  return errno != EADDRINUSE || !is_this_users(address);
}

std::string ask_once_per_host(const std::string& occasion, std::chrono::milliseconds patience,
                              const std::function<std::string()>& ask) {
  const Address address = address_of(occasion);
  if (const int listener = claim(address); listener >= 0) {
    std::string answer = ask().substr(0, kLongestAnswer);
    answer_waiting(listener, kAnswered + answer);
    thread_without_signals([listener, answer = kAnswered + answer] { answer_all(listener, answer); }).detach();
    return answer;
  }
  const int connection = connection_to_own(address);
  std::optional<std::string> received = connection < 0 ? std::nullopt : read_answer(connection, patience);
  if (connection >= 0) {
    ::close(connection);
  }
  return received ? *std::move(received) : ask();
}

}  // namespace rollcall
