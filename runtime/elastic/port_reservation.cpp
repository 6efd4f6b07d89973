#include "runtime/elastic/port_reservation.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>

namespace rollcall::elastic {
namespace {

/// Returns a socket bound to a port of the kernel's choice on all addresses; -1 where this host lacks the family.
int bound_socket(int family) {
  const int descriptor = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  const int off = 0;
  sockaddr_storage any{};
  any.ss_family = static_cast<sa_family_t>(family);
  const socklen_t length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (descriptor < 0) {
    return -1;
  }
  if (family == AF_INET6) {
    setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(descriptor, reinterpret_cast<const sockaddr*>(&any), length) != 0) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

}  // namespace

Result<PortReservation> PortReservation::make() {
  int descriptor = bound_socket(AF_INET6);
  descriptor = descriptor < 0 ? bound_socket(AF_INET) : descriptor;
  if (descriptor < 0) {
    return fail("MASTER_PORT", "", "no port is free: " + errno_text(errno), "checking net.ipv4.ip_local_port_range",
                ErrorKind::Unavailable);
  }
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &length);
  PortReservation made;
  made.descriptor_ = descriptor;
  made.port_ = ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);  // has the same offset in both families
  return made;
}

PortReservation::PortReservation(PortReservation&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), port_(other.port_) {}

PortReservation& PortReservation::operator=(PortReservation&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(port_, other.port_);
  return *this;
}

PortReservation::~PortReservation() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

bool is_this_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) {
    return false;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(list, freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const int descriptor = socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool own = descriptor >= 0 && bind(descriptor, entry->ai_addr, entry->ai_addrlen) == 0;
    if (descriptor >= 0) {
      close(descriptor);
    }
    if (own) {
      return true;
    }
  }
  return false;
}

}  // namespace rollcall::elastic
