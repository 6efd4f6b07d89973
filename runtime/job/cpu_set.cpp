#include "runtime/job/cpu_set.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace rollcall::job {

std::uint32_t cpus_of_this_process() {
  // The kernel refuses a mask smaller than its own (EINVAL), so grow it until it fits (sched_setaffinity(2), NOTES).
  constexpr int kMostCpus = 1 << 20;
  for (int cpus = 1024; cpus <= kMostCpus; cpus *= 2) {
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    struct Free {
      void operator()(cpu_set_t* mask) const { CPU_FREE(mask); }
    };
    const std::unique_ptr<cpu_set_t, Free> mask(CPU_ALLOC(cpus));
    if (mask && sched_getaffinity(0, bytes, mask.get()) == 0) {
      return static_cast<std::uint32_t>(std::max(1, CPU_COUNT_S(bytes, mask.get())));
    }
    if (errno != EINVAL) {
      return 1;
    }
  }
  return 1;
}

}  // namespace rollcall::job
