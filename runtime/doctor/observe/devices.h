#pragma once

#include <filesystem>
#include <vector>

#include "runtime/doctor/facts.h"

namespace rollcall::doctor {

/// GPUs by their PCI address: what the drivers nvidia and amdgpu hold, and the cards of /sys/class/drm by those makers
/// (a server's own display chip is none). `sys` is "/sys", another folder in tests. Ascending, without duplicates.
[[nodiscard]] std::vector<Device> observe_gpus(const std::filesystem::path& sys);

/// Network adapters of /sys/class/infiniband (InfiniBand, RoCE, Omni-Path, EFA) with NUMA node, state and rate.
[[nodiscard]] std::vector<Device> observe_adapters(const std::filesystem::path& sys);

/// Every interface of this host with its speed (/sys/class/net/NAME/speed, Mbit/s).
[[nodiscard]] std::vector<InterfaceFacts> observe_interfaces(const std::vector<network::Interface>& interfaces,
                                                             const std::filesystem::path& sys);

}  // namespace rollcall::doctor
