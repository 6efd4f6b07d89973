#pragma once

#include <cstdint>
#include <string>

namespace rollcall {

/// Bytes of memory that this process and those that share its cgroups may use together: the smallest limit of its
/// memory cgroups and of those above them (cgroups(7), versions 1 and 2), or all that the machine has. Slurm's tasks
/// are in such cgroups where the site constrains memory (cgroup.conf, ConstrainRAMSpace). 0 where nothing tells.
/// `root`: before /proc and /sys. Thread-safe.
[[nodiscard]] std::uint64_t memory_limit(const std::string& root = "");

}  // namespace rollcall
