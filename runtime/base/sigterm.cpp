#include "runtime/base/sigterm.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

namespace rollcall {
namespace {

int arrived = -1;

void note(int /*signal*/) {
  const std::uint64_t once = 1;
  (void)!::write(arrived, &once, sizeof once);
}

}  // namespace

void wait_for_sigterm(std::chrono::seconds patience) {
  arrived = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::signal(SIGTERM, note);  // any thread may run it, so that sigtimedwait(2) would not see all signals
  pollfd waited{.fd = arrived, .events = POLLIN, .revents = 0};
  while (::poll(&waited, 1, static_cast<int>(std::chrono::milliseconds(patience).count())) < 0 && errno == EINTR) {
  }
}

}  // namespace rollcall
