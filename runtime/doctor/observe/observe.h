#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/environment.h"
#include "runtime/doctor/facts.h"
#include "runtime/doctor/job_context.h"
#include "runtime/network/network_view.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"

namespace rollcall::doctor {

/// What is known of this task beforehand. The references must outlive the call.
struct TaskInputs {
  const step::ObservedStep& step;
  const Result<resolve::EnvPatch>& patch;
  const settings::LaunchSettings& settings;
  const Environment& environment;
  std::uint16_t ring_port = 0;  ///< where this rank's left neighbour may connect; 0: it does not listen
};

/// Examines this rank and, where it is the first of its node, the node. Nothing waits longer than a share of
/// `rendezvous.timeout`: what hangs is reported as hanging. Does I/O; changes nothing except for a file on SCRATCH that
/// is removed immediately.
[[nodiscard]] TaskFacts observe_task(const TaskInputs& inputs);

/// Writes a small file into the folder `path`, syncs it to the disk, and removes it (where the file system supports
/// that, it never has a name); reads the free space and inodes, which are the file system's as in statvfs(2), not a
/// quota's.
[[nodiscard]] FolderFacts observe_folder(const std::string& path);

/// Returns the size of the file system at `path` in bytes; 0 where there is none.
[[nodiscard]] std::uint64_t file_system_bytes(const std::string& path);

/// Returns the name of `address` (getnameinfo(3)); empty: none. May block as long as the resolver does.
[[nodiscard]] std::string reverse_name(const std::string& address);

/// Returns the physical cores of these CPUs: the lowest CPU of each core, ascending, so that hardware threads of one
/// core count once (/sys/devices/system/cpu/cpuN/topology/thread_siblings_list). `sys` is "/sys".
[[nodiscard]] std::vector<std::uint32_t> cores_of(const std::vector<std::uint32_t>& cpus,
                                                  const std::filesystem::path& sys);

/// Returns the number of online physical cores (/sys/devices/system/cpu/online); 0: unknown.
[[nodiscard]] std::uint64_t online_cores(const std::filesystem::path& sys);

/// Returns GPUs by their PCI address: the devices of the drivers nvidia and amdgpu, and the cards of /sys/class/drm by
/// those makers (which excludes a server's own display chip). `sys` is "/sys", or another folder in tests. Ascending,
/// without duplicates.
[[nodiscard]] std::vector<Device> observe_gpus(const std::filesystem::path& sys);

/// Returns the GPUs whose device files this process may open: NVIDIA's (/dev/nvidiaN, listed in
/// /proc/driver/nvidia/gpus) and AMD's (/dev/dri/renderDN), in the order of their PCI addresses, as CUDA and HIP number
/// GPUs of one kind; and which of them CUDA_VISIBLE_DEVICES, or ROCR_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES for AMD,
/// leaves visible to its program. A part of a GPU (MIG) and an AMD GPU's UUID are visible by name, and their location
/// is unknown. Opens no device. `root` is "/", or another folder in tests.
[[nodiscard]] GpuFacts observe_task_gpus(const Environment& environment, const std::filesystem::path& root);

/// Returns the NUMA nodes of these CPUs, ascending (/sys/devices/system/node/nodeN/cpulist); empty: unknown. `sys` is
/// "/sys".
[[nodiscard]] std::vector<int> numa_nodes_of(const std::vector<std::uint32_t>& cpus, const std::filesystem::path& sys);

/// Returns the network adapters of /sys/class/infiniband (InfiniBand, RoCE, Omni-Path, EFA) with NUMA node, state and
/// rate.
[[nodiscard]] std::vector<Device> observe_adapters(const std::filesystem::path& sys);

/// Returns every interface of this host with its speed (/sys/class/net/NAME/speed, Mbit/s).
[[nodiscard]] std::vector<InterfaceFacts> observe_interfaces(const std::vector<network::Interface>& interfaces,
                                                             const std::filesystem::path& sys);

/// Runs `path`/bin/python on this node: an environment made on a login node can lack its interpreter or libraries on a
/// compute node.
[[nodiscard]] VenvFacts observe_venv(const std::string& path, std::chrono::duration<double> patience);

/// Returns the versions on this node, except rollcall's own. Slurm's comes from `scontrol --version`, PMIx's from the
/// library that would be loaded; empty where there is none.
[[nodiscard]] Versions observe_versions(const TaskInputs& inputs);

/// Returns the address under which Slurm reaches `host` (`scontrol show node`); empty: unknown.
[[nodiscard]] std::string slurms_address_of(const std::string& host);

/// Returns what `scontrol show config` reports, and for a batch job `scontrol show job`.
[[nodiscard]] NodeLoss observe_node_loss(const Environment& environment);

/// Finds out whether srun exists, whether `srun --help` lists --ddp, and whose installation Slurm's configuration
/// names.
[[nodiscard]] LaunchMethod observe_launch_method(const Environment& environment);

/// Returns the path of rollcall-bench-collectives: this installation's, otherwise the first in PATH. Empty: none.
[[nodiscard]] std::string bench_program(const Environment& environment);

/// Runs `program` as this rank's part of a short measurement of `backends`. Collective: every rank of the step calls
/// it. Options of launch settings are passed on. The program is killed 30 s after rendezvous.timeout. Returns the rows
/// and the first error that rank 0 prints.
[[nodiscard]] Collectives measure_collectives(const std::string& program, const std::vector<std::string>& backends,
                                              const settings::LaunchSettings& settings, const Environment& environment);

/// Parses the program's output. Pure.
[[nodiscard]] Collectives read_collectives(const ChildOutput& output);

}  // namespace rollcall::doctor
