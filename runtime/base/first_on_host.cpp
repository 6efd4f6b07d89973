#include "runtime/base/first_on_host.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

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

/// Connects to the socket of that name; again where its owner does not listen yet.
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

/// Whether the socket of that name belongs to this user. False, too, where it has gone meanwhile.
bool is_this_users(const Address& address) {
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) {
    return false;
  }
  ucred owner{};
  socklen_t length = sizeof owner;
  const bool told =
      connect_to(descriptor, address) == 0 && ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &owner, &length) == 0;
  ::close(descriptor);
  return told && owner.uid == ::geteuid();
}

}  // namespace

bool is_first_on_host(const std::string& occasion) {
  const Address address = address_of(occasion);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor >= 0 && ::bind(descriptor, address.get(), address.length) == 0 &&
      ::listen(descriptor, SOMAXCONN) == 0) {
    return true;  // and keeps the socket
  }
  const bool taken = descriptor >= 0 && errno == EADDRINUSE;
  if (descriptor >= 0) {
    ::close(descriptor);
  }
  return !taken || !is_this_users(address);
}

}  // namespace rollcall
