// For LD_PRELOAD: a process whose wall clock is two seconds ahead of the others'.
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long failed = ::syscall(SYS_clock_gettime, clock, now);
  if (failed == 0 && clock == CLOCK_REALTIME) {
    now->tv_sec += 2;
  }
  return static_cast<int>(failed);
}
