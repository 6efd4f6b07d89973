#include "runtime/rendezvous/connect.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace rollcall::rendezvous {
namespace {

using std::chrono::milliseconds;

/// Connects without blocking beyond `deadline`. Returns 0, with the socket in `connected`, or errno.
int try_address(const addrinfo& address, Clock::time_point deadline, int& connected) {
  const int descriptor = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) {
    return errno;
  }
  int error = connect(descriptor, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd waiting{descriptor, POLLOUT, 0};
    error = ETIMEDOUT;
    if (poll(&waiting, 1, milliseconds_until(deadline)) > 0) {
      socklen_t length = sizeof error;
      getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length);
    }
  }
  if (error == 0) {
    connected = descriptor;
  } else {
    close(descriptor);
  }
  return error;
}

using NameOf = int (*)(int, sockaddr*, socklen_t*);

std::string address_by(NameOf name_of, int descriptor) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  std::array<char, NI_MAXHOST> text{};
  if (name_of(descriptor, address, &length) != 0 ||
      getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  const std::string shown = text.data();
  constexpr std::string_view kMapped = "::ffff:";  // IPv4 address in a socket of both families
  return shown.starts_with(kMapped) && shown.find('.') != std::string::npos ? shown.substr(kMapped.size()) : shown;
}

}  // namespace

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, 1'000'000));
}

bool nobody_listens(const Endpoint& endpoint, Clock::time_point deadline) {
  const Attempt attempt = connect_once(endpoint, deadline);
  if (attempt.descriptor < 0) {
    return attempt.refused;
  }
  // An ending process closes its descriptors one by one: the kernel resets connections not yet accepted.
  pollfd probe{attempt.descriptor, POLLIN, 0};
  char byte = 0;
  const bool reset = poll(&probe, 1, milliseconds_until(deadline)) > 0 && recv(attempt.descriptor, &byte, 1, 0) < 0 &&
                     errno == ECONNRESET;
  close(attempt.descriptor);
  return reset;
}

milliseconds rest_after(Clock::duration waited) {
  constexpr milliseconds kShortest{2};
  constexpr milliseconds kLongest{1000};
  return std::clamp(std::chrono::duration_cast<milliseconds>(waited / 8), kShortest, kLongest);
}

Attempt connect_once(const Endpoint& endpoint, Clock::time_point deadline) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int unresolved = getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &list);
  if (unresolved != 0) {
    return {-1, unresolved == EAI_SYSTEM ? errno_text(errno) : gai_strerror(unresolved), false};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(list, freeaddrinfo);
  int left = 0;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    ++left;
  }
  int error = EADDRNOTAVAIL;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next, --left) {
    int descriptor = -1;
    error = try_address(*entry, Clock::now() + (deadline - Clock::now()) / left, descriptor);
    if (error == 0) {
      return {descriptor, "", false};
    }
  }
  return {-1, errno_text(error), error == ECONNREFUSED, error == ETIMEDOUT};
}

std::string own_address(int descriptor) { return address_by(getsockname, descriptor); }
std::string peer_address(int descriptor) { return address_by(getpeername, descriptor); }

}  // namespace rollcall::rendezvous
