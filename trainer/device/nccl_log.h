#pragma once

#include <string>
#include <string_view>

namespace rollcall::device {

// What NCCL says of itself. Without NCCL_DEBUG it says nothing, also where it takes a slow way; with it, it writes on
// the standard output of every rank.

/// Has NCCL write its warnings, and which network it takes, into memory of this process, unless NCCL_DEBUG,
/// NCCL_DEBUG_SUBSYS or NCCL_DEBUG_FILE is set, here or in one of NCCL's files of settings: then somebody else reads
/// it. Sets these three. Call it before NCCL is used, and before other threads, as setenv(3) wants; later calls change
/// nothing.
void keep_nccl_log();

/// What it has written so far, the last MiB of it; empty: nothing, or not here. Thread-safe.
[[nodiscard]] std::string nccl_log();

/// The network that it takes: "IB" (InfiniBand and RoCE), "Socket" (TCP), or a plugin's name; of several communicators
/// the last one's. Empty: it does not say. The line is NCCL's since 2.4 at least: "NCCL INFO Using network IB". Pure.
[[nodiscard]] std::string network_of(std::string_view nccl_log);

/// Whether it warns of something ("NCCL WARN"). Pure.
[[nodiscard]] bool has_warning(std::string_view nccl_log);

/// An InfiniBand adapter of this node with an active port ("mlx5_0"), the first by name; empty: there is none. RoCE is
/// left out, since its ports are active wherever there is an Ethernet. `root`: before /sys/class/infiniband.
[[nodiscard]] std::string active_infiniband(const std::string& root = "");

}  // namespace rollcall::device
