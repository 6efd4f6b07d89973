#pragma once

#include <c10/util/intrusive_ptr.h>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/base/result.h"
#include "trainer/device/plugin.h"
#include "trainer/distributed/membership/membership.h"
#include "trainer/distributed/processes/processes.h"
#include "trainer/distributed/watchdog/watchdog.h"

namespace rollcall::process_group {

struct ProcessGroupOptions {
  std::string backend = "auto";                          ///< "auto", "gloo", "ucx", "mpi" or "nccl"
  const device::Plugin* device = nullptr;                ///< plugin of the device that computes; null: the CPU
  std::chrono::milliseconds timeout{600'000};            ///< a collective that takes longer is an error
  const char* timeout_setting = "--collective-timeout";  ///< the setting that decided `timeout`, for messages
  bool compare_calls = false;                            ///< see WatchdogOptions::compare
  RankNames names{};                                     ///< the ranks' numbers in the step, for messages
  /// The larger group on the same device that this group is a part of; all of its ranks make parts at the same time.
  /// Null if there is none.
  c10::intrusive_ptr<c10d::ProcessGroup> whole{};
  /// Called with the group once it carries CPU tensors, before the device's backend is made, which may wait for all
  /// ranks for ever. An error, which all ranks must return alike, ends make_process_group(). Collective. May be empty.
  std::function<Result<void>(const c10::intrusive_ptr<c10d::ProcessGroup>&)> hosts_connected{};
  /// Shared by the groups made with copies of the same options.
  std::shared_ptr<Membership> membership = std::make_shared<Membership>();
  bool expendable = false;  ///< whether the process continues without the group after a failure
};

/// A process group, and the backend that carries its collectives: "gloo", "ucx", "mpi" or a device's.
struct NamedProcessGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  std::string backend;
};

/// Checks that backend `asked` carries tensors of `plugin`'s device, or of the CPU if it is null. make_process_group()
/// checks this first; ranks whose devices may differ agree on it before. Errors: (Usage) it does not, or is unknown.
[[nodiscard]] Result<void> check_backend(const std::string& asked, const device::Plugin* plugin);

/// Makes the process group of all ranks: with Gloo, UCX or MPI for CPU tensors or, if a device computes, with Gloo for
/// CPU tensors and the device's backend (NCCL) for tensors on the current device. "auto" selects the latter for a
/// device and gloo otherwise (docs/user/backends.md explains why). Collective.
///
/// The group has a watchdog (watch() of watchdog.h): collectives that fail throw CollectiveFailure.
///
/// Gloo takes its interface from GLOO_SOCKET_IFNAME, NCCL from NCCL_SOCKET_IFNAME, UCX from UCX_NET_DEVICES, all of
/// this process's environment. Errors: (Usage) unknown backend, one that the program was built without, or MPI where
/// no MPI launcher started the ranks; (Unavailable) the ranks could not be connected; the errors of `hosts_connected`.
[[nodiscard]] Result<NamedProcessGroup> make_process_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                           std::uint32_t rank, std::uint32_t world_size,
                                                           const ProcessGroupOptions& options);

/// Releases the last reference to a group that may have lost a rank, on a detached thread: Gloo sometimes waits for a
/// peer that was lost in a collective until the collective's timeout, and always needs tens of milliseconds to close
/// its connections. The memory of its collectives stays allocated for that long.
void leave_behind(c10::intrusive_ptr<c10d::ProcessGroup> group);

}  // namespace rollcall::process_group
