#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/train/job_context.h"

namespace rollcall::train {

/// Checks that all ranks have a device of one kind and that no two ranks share a device or have MIG instances of one
/// GPU. Stores JobContext::device_lines and appends to JobContext::device_warnings. `hosts` is a group of all ranks for
/// tensors on CPUs; `taken` says whether this rank has a device. Collective; the result is the same on all ranks.
///
/// Errors: the error of the first rank without a device; Mismatch: the ranks have devices of different kinds, or only
/// some have rollcall's own kernels; Unavailable: two ranks use one GPU, or a peer was lost.
[[nodiscard]] Result<void> agree_on_devices(JobContext& context, const process_group::Group& hosts,
                                            const Result<void>& taken);

/// Returns a warning if this node has fewer ranks than devices that each rank sees, so that devices stay idle; empty if
/// none is idle or if `visible` is 0 (the ranks compute on CPUs). Pure.
[[nodiscard]] std::string idle_devices_warning(const device::DeviceRequest& place, std::uint32_t visible);

/// The device on which one rank computes.
struct DeviceOfRank {
  std::string host;
  std::string name;            ///< "NVIDIA H100 80GB HBM3"
  std::uint32_t openable = 0;  ///< number of its node's devices that its process may open, its own included; 0: unknown
};

/// Returns one warning if the ranks compute on devices of different models; empty if they do not. Pure.
[[nodiscard]] std::string mixed_devices_warning(const std::vector<DeviceOfRank>& ranks);

/// Returns one warning if ranks may not open the devices of other ranks on their node, so that NCCL reaches these
/// through main memory or the network; empty if they may. Pure.
[[nodiscard]] std::string hidden_devices_warning(const std::vector<DeviceOfRank>& ranks);

/// Describes the device of a world of one rank for people; empty for the CPU.
[[nodiscard]] std::vector<std::string> device_lines(const JobContext& context);

/// Returns ascending numbers as "0-3,8". Pure.
[[nodiscard]] std::string ranges_text(const std::vector<std::uint32_t>& numbers);

}  // namespace rollcall::train
