#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <ctime>

#include "spank_plugin/program.h"

namespace rollcall::spank {
namespace {

template <typename Transfer>
Io transfer_all(int socket, short event, std::size_t size, long deadline, Transfer transfer) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t got = transfer(done);
    if (got > 0) {
      done += static_cast<std::size_t>(got);
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return Io::Closed;
    }
    const long left = deadline - now();
    pollfd waiting{socket, event, 0};
    if (left <= 0 || (::poll(&waiting, 1, static_cast<int>(left)) == 0 && deadline <= now())) {
      return Io::Late;
    }
  }
  return Io::Done;
}

}  // namespace

long now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000 + time.tv_nsec / 1'000'000;
}

Io send_all(int socket, const char* data, std::size_t size, long deadline) {
  return transfer_all(socket, POLLOUT, size, deadline, [&](std::size_t done) {
    return ::send(socket, data + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

Io receive_all(int socket, char* data, std::size_t size, long deadline) {
  return transfer_all(socket, POLLIN, size, deadline,
                      [&](std::size_t done) { return ::recv(socket, data + done, size - done, MSG_DONTWAIT); });
}

}  // namespace rollcall::spank
