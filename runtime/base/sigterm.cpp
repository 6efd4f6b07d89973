#include "runtime/base/sigterm.h"

#include <semaphore.h>

#include <cerrno>
#include <csignal>
#include <ctime>

namespace rollcall {
namespace {

sem_t arrived;

void post(int /*signal*/) { ::sem_post(&arrived); }

}  // namespace

void wait_for_sigterm(std::chrono::seconds patience) {
  ::sem_init(&arrived, 0, 0);
  std::signal(SIGTERM, post);  // any thread may run it, so that sigtimedwait(2) would not see all signals
  timespec end{};
  ::clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += patience.count();
  while (::sem_timedwait(&arrived, &end) != 0 && errno == EINTR) {
  }
}

}  // namespace rollcall
