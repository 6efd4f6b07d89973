#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace rollcall::doctor {

/// The physical cores of these CPUs: the lowest CPU of each, ascending (hardware threads of one core count once;
/// /sys/devices/system/cpu/cpuN/topology/thread_siblings_list). `sys` is "/sys".
[[nodiscard]] std::vector<std::uint32_t> cores_of(const std::vector<std::uint32_t>& cpus,
                                                  const std::filesystem::path& sys);

/// The CPUs that this process may run on (sched_getaffinity(2)), ascending; empty where the kernel refuses.
[[nodiscard]] std::vector<std::uint32_t> own_cpus();

/// How many physical cores are online (/sys/devices/system/cpu/online); 0: unknown.
[[nodiscard]] std::uint64_t online_cores(const std::filesystem::path& sys);

/// "0-3,8" as {0, 1, 2, 3, 8}; what does not parse is passed over. Pure.
[[nodiscard]] std::vector<std::uint32_t> parse_cpu_list(const std::string& text);

}  // namespace rollcall::doctor
