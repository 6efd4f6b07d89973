#include "runtime/rendezvous/listener.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "runtime/base/result.h"
#include "runtime/base/this_process.h"

namespace rollcall::rendezvous {
namespace {

constexpr int kBacklog = 2048;

Error refuse(std::uint16_t port, int error_number) {
  const std::string host = this_host_name();
  if (error_number == EADDRINUSE) {
    return fail("MASTER_PORT", std::to_string(port), "is in use on " + host,
                "setting another MASTER_PORT or port.range, or unsetting it", ErrorKind::Unavailable);
  }
  return fail("MASTER_PORT", std::to_string(port), "cannot be bound on " + host + ": " + errno_text(error_number),
              "setting another MASTER_PORT or port.range", ErrorKind::Unavailable);
}

/// Binds and listens; returns 0 or errno.
int listen_at(int descriptor, const sockaddr* address, socklen_t length) {
  const int on = 1;
  if (setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 || bind(descriptor, address, length) != 0 ||
      listen(descriptor, kBacklog) != 0) {
    return errno;
  }
  return 0;
}

int listen_ipv6(int descriptor, std::uint16_t port) {
  const int off = 0;
  if (setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) {
    return errno;
  }
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(port);
  any.sin6_addr = in6addr_any;
  return listen_at(descriptor, reinterpret_cast<const sockaddr*>(&any), sizeof any);
}

int listen_ipv4(int descriptor, std::uint16_t port, in_addr_t where) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(where);
  return listen_at(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

std::uint16_t port_of(int descriptor) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return 0;
  }
  // The port has the same offset in sockaddr_in and sockaddr_in6 (RFC 3493, 3.3).
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

int make_socket(int family) { return socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0); }

}  // namespace

Result<Listener> Listener::on_all_addresses(std::uint16_t port) {
  int error = EAFNOSUPPORT;
  if (const int descriptor = make_socket(AF_INET6); descriptor >= 0) {
    error = listen_ipv6(descriptor, port);
    if (error == 0) {
      return Listener(descriptor, port_of(descriptor));
    }
    close(descriptor);
  }
  if (error == EADDRINUSE || error == EACCES) {
    return refuse(port, error);
  }
  const int descriptor = make_socket(AF_INET);
  error = descriptor < 0 ? errno : listen_ipv4(descriptor, port, INADDR_ANY);
  if (error == 0) {
    return Listener(descriptor, port_of(descriptor));
  }
  if (descriptor >= 0) {
    close(descriptor);
  }
  return refuse(port, error);
}

Result<Listener> Listener::on_loopback() {
  const int descriptor = make_socket(AF_INET);
  const int error = descriptor < 0 ? errno : listen_ipv4(descriptor, 0, INADDR_LOOPBACK);
  if (error == 0) {
    return Listener(descriptor, port_of(descriptor));
  }
  if (descriptor >= 0) {
    close(descriptor);
  }
  return refuse(0, error);
}

Listener::Listener(Listener&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)), port_(other.port_) {}

Listener& Listener::operator=(Listener&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(port_, other.port_);
  return *this;
}

Listener::~Listener() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

}  // namespace rollcall::rendezvous
