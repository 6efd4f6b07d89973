#pragma once

#include <cstdint>

namespace rollcall::job {

/// How many CPUs this process may run on (sched_getaffinity(2)); at least 1, also on machines with more than 1024 CPUs.
/// In a task whose step binds CPUs these are the task's, otherwise all of the node. Thread-safe.
[[nodiscard]] std::uint32_t cpus_of_this_process();

}  // namespace rollcall::job
