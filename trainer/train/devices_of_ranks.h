#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// Whether all ranks have a device, of one kind, and no two the same one, or instances of one GPU; keeps
/// World::device_lines, and adds to World::device_warnings. `hosts`: all ranks, for tensors on CPUs. `taken`: whether
/// this rank has one. The same on all ranks. Collective. Errors: the first rank's; (Mismatch) kinds, or some with the
/// project's kernels and some without; (Unavailable) one GPU for two ranks, or a peer was lost.
[[nodiscard]] Result<void> agree_on_devices(World& world, const process_group::Group& hosts, const Result<void>& taken);

/// Adds to World::device_warnings what the ranks' devices are connected by, where it is slow; after they are.
/// Collective. Errors: a peer was lost.
[[nodiscard]] Result<void> look_at_network(World& world);

/// Why devices stay idle: fewer ranks on this node than devices that each sees. Empty: they do not, or the CPU is what
/// is computed on (`visible` 0). Pure.
[[nodiscard]] std::string idle_devices_warning(const device::Place& place, std::uint32_t visible);

/// What a rank found of the network that NCCL takes.
struct NetworkOfRank {
  std::string host = {};
  std::string left_aside = {};  ///< an InfiniBand adapter that it does not take though nobody said so; or empty
};

/// That ranks send by TCP although they have InfiniBand: one line for all of them; empty: none does. Pure.
[[nodiscard]] std::string slow_network_warning(const std::vector<NetworkOfRank>& ranks);

/// Where a rank computes, for people.
struct DeviceOfRank {
  std::string host;
  std::string name;            ///< "NVIDIA H100 80GB HBM3"
  std::uint32_t openable = 0;  ///< devices of its node that its process may open, its own among them; 0: not known
};

/// That ranks compute on devices of different models: one line for all of them; empty: on one. Pure.
[[nodiscard]] std::string mixed_devices_warning(const std::vector<DeviceOfRank>& ranks);

/// That ranks may not open the devices of their node's other ranks, which NCCL then reaches by main memory or the
/// network: one line for all of them; empty: they may. Pure.
[[nodiscard]] std::string hidden_devices_warning(const std::vector<DeviceOfRank>& ranks);

/// In a world of one: its device, for people; none for the CPU.
[[nodiscard]] std::vector<std::string> device_lines(const World& world);

/// "0-3,8" of ascending numbers. Pure.
[[nodiscard]] std::string ranges_text(const std::vector<std::uint32_t>& numbers);

}  // namespace rollcall::train
