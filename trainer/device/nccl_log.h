#pragma once

#include <string>
#include <string_view>

namespace rollcall::device {

// Captures the log of NCCL. Without NCCL_DEBUG NCCL logs nothing, even if it uses a slow network; with it, it writes to
// the standard output of every rank.

/// Makes NCCL log its warnings and its network into memory of this process, unless NCCL_DEBUG, NCCL_DEBUG_SUBSYS or
/// NCCL_DEBUG_FILE is set, in the environment or in one of NCCL's configuration files. Sets these three. Call it before
/// NCCL is used and before other threads start, as setenv(3) requires; later calls change nothing.
void keep_nccl_log();

/// Returns the last MiB of the log; empty if there is none or it is not captured. Thread-safe.
[[nodiscard]] std::string nccl_log();

/// Returns the network that NCCL uses: "IB" (InfiniBand and RoCE), "Socket" (TCP), or a plugin's name. Of several
/// communicators the last one counts. Empty if the log does not name it: "NCCL INFO Using network IB", a line of
/// NCCL 2.4 and later. Pure.
[[nodiscard]] std::string network_of(std::string_view nccl_log);

/// Returns whether the log has a warning ("NCCL WARN"). Pure.
[[nodiscard]] bool has_warning(std::string_view nccl_log);

/// Returns this node's first InfiniBand adapter, by name, with an active port ("mlx5_0"); empty if there is none. RoCE
/// is ignored, since its ports are active on every Ethernet. `root` is prepended to /sys/class/infiniband.
[[nodiscard]] std::string active_infiniband(const std::string& root = "");

}  // namespace rollcall::device
