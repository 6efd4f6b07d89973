#pragma once

#include <string>

namespace rollcall::process_group::ucx {

/// Names this process among all of a cluster: boot of the kernel, PID namespace, PID. Empty where /proc does not say.
[[nodiscard]] std::string process_identity();

/// A descriptor that becomes readable once the process `identity` has ended (pidfd_open(2), Linux 5.3), also while its
/// parent has not collected it. Owned by the caller. -1 where it runs on another host or in another PID namespace, has
/// ended already, or the kernel cannot do it.
[[nodiscard]] int watch_process(const std::string& identity);

}  // namespace rollcall::process_group::ucx
