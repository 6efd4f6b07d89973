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
  const device::Plugin* device = nullptr;                ///< whose current device computes; null: the CPU
  std::chrono::milliseconds timeout{600'000};            ///< a collective that takes longer is an error
  const char* timeout_setting = "--collective-timeout";  ///< which decided that, for messages
  bool compare_calls = false;                            ///< see WatchdogOptions::compare
  RankNames names{};                                     ///< of the group's ranks, in messages
  /// A larger group with the same device, all of whose ranks make parts of it at the same time. Null: there is none.
  c10::intrusive_ptr<c10d::ProcessGroup> whole{};
  /// Called with the group as soon as it carries tensors on CPUs, before the device's backend is made, which may wait
  /// for all ranks for ever: an error, which has to be that of all ranks, ends the making. Collective. Empty: nothing.
  std::function<Result<void>(const c10::intrusive_ptr<c10d::ProcessGroup>&)> hosts_connected{};
  /// Groups made with copies of the same options share what is known of their ranks.
  std::shared_ptr<Membership> membership = std::make_shared<Membership>();
  bool expendable = false;  ///< the process goes on without the group where that fails
};

/// All ranks of the step as one group, and the backend that carries its collectives: "gloo", "ucx", "mpi" or a
/// device's.
struct NamedProcessGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  std::string backend;
};

/// Whether `asked` carries tensors of `plugin`'s device, or (null) of the CPU: what make_process_group() looks at
/// first, for ranks whose devices may differ to agree on it. Errors: (Usage) it does not, or is unknown.
[[nodiscard]] Result<void> check_backend(const std::string& asked, const device::Plugin* plugin);

/// Makes the process group of all ranks: Gloo, UCX or MPI for tensors on CPUs; where a device computes Gloo for those,
/// and the device's backend (NCCL) for tensors on the current device. "auto" is that, otherwise gloo
/// (docs/user/backends.md says why). Collective.
///
/// A watchdog (watch() of watchdog.h) is around it: collectives that fail throw CollectiveFailure.
///
/// Gloo takes its interface from GLOO_SOCKET_IFNAME, NCCL from NCCL_SOCKET_IFNAME, UCX from UCX_NET_DEVICES, all of
/// this process's environment. Errors: (Usage) unknown backend, one that the program was built without, or MPI where
/// no MPI launcher started the ranks; (Unavailable) the ranks could not be connected; those of `hosts_connected`.
[[nodiscard]] Result<NamedProcessGroup> make_process_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                           std::uint32_t rank, std::uint32_t world_size,
                                                           const ProcessGroupOptions& options);

/// Lets go of a group of which a rank may be lost, by its last reference, from a thread that is left to itself: a Gloo
/// whose peer went in the middle of a collective now and then waits for it until the collective's timeout, and needs
/// tens of milliseconds to close its connections in any case. What its collectives hold stays as long.
void leave_behind(c10::intrusive_ptr<c10d::ProcessGroup> group);

}  // namespace rollcall::process_group
