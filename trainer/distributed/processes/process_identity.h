#pragma once

#include <sys/types.h>
#include <optional>
#include <string>

namespace rollcall::process_group {

/// Names the processes that can see each other's PIDs: boot of the kernel, PID namespace. Empty where /proc does not
/// say.
[[nodiscard]] std::string process_space();

/// Names this process among all of a cluster: its process_space() and its PID. Empty where /proc does not say.
[[nodiscard]] std::string process_identity();

/// The PID of the process `identity` for this one. Nothing where it runs on another host or in another PID namespace.
[[nodiscard]] std::optional<pid_t> local_process(const std::string& identity);

/// A descriptor that becomes readable once the process `identity` has ended (pidfd_open(2), Linux 5.3), also while its
/// parent has not collected it. Owned by the caller. -1 where local_process() knows none, it has ended already, or the
/// kernel cannot do it.
[[nodiscard]] int watch_process(const std::string& identity);

}  // namespace rollcall::process_group
