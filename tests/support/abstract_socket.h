#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

namespace rollcall {

/// A name in the abstract namespace (unix(7)), where every user of the host can bind and connect.
struct AbstractAddress {
  explicit AbstractAddress(const std::string& name)
      : length(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) {
    place.sun_family = AF_UNIX;
    std::memcpy(place.sun_path + 1, name.data(), name.size());
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&place); }

  sockaddr_un place{};
  socklen_t length;
};

/// A connection to the socket of that name, waited for where many wait already; -1 where nobody listens.
inline int connected_to_abstract(const std::string& name) {
  const AbstractAddress address(name);
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(descriptor, address.get(), address.length) == 0) {
    return descriptor;
  }
  close(descriptor);
  return -1;
}

}  // namespace rollcall
