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
#include "runtime/doctor/world.h"
#include "runtime/network/network_view.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"

namespace rollcall::doctor {

/// What is known of this task before the doctor looks. The references must outlive the call.
struct TaskInputs {
  const step::ObservedStep& step;
  const Result<resolve::EnvPatch>& patch;
  const settings::LaunchSettings& settings;
  const Environment& environment;
  std::uint16_t ring_port = 0;  ///< where this rank's left neighbour may connect; 0: it does not listen
};

/// Looks at this rank and, where it is the first of its node, at the node. Nothing here waits longer than a share of
/// `rendezvous.timeout`: what hangs is reported as hanging. Does I/O; changes nothing but a file on SCRATCH that goes
/// at once.
[[nodiscard]] TaskFacts observe_task(const TaskInputs& inputs);

/// Writes a small file into the folder `path`, forces it to the disk, and removes it (where the file system can, it
/// never gets a name); asks for the free space and inodes. With quotas these are the file system's, as statvfs(2) says.
[[nodiscard]] FolderFacts observe_folder(const std::string& path);

/// The size of the file system at `path` in bytes; 0 where there is none.
[[nodiscard]] std::uint64_t file_system_bytes(const std::string& path);

/// The name that `address` leads back to (getnameinfo(3)); empty: none. May block as long as the resolver does.
[[nodiscard]] std::string reverse_name(const std::string& address);

/// The physical cores of these CPUs: the lowest CPU of each, ascending (hardware threads of one core count once;
/// /sys/devices/system/cpu/cpuN/topology/thread_siblings_list). `sys` is "/sys".
[[nodiscard]] std::vector<std::uint32_t> cores_of(const std::vector<std::uint32_t>& cpus,
                                                  const std::filesystem::path& sys);

/// How many physical cores are online (/sys/devices/system/cpu/online); 0: unknown.
[[nodiscard]] std::uint64_t online_cores(const std::filesystem::path& sys);

/// GPUs by their PCI address: what the drivers nvidia and amdgpu hold, and the cards of /sys/class/drm by those makers
/// (a server's own display chip is none). `sys` is "/sys", another folder in tests. Ascending, without duplicates.
[[nodiscard]] std::vector<Device> observe_gpus(const std::filesystem::path& sys);

/// The GPUs whose device files this process may open: NVIDIA's (/dev/nvidiaN, known by /proc/driver/nvidia/gpus) and
/// AMD's (/dev/dri/renderDN), in the order of their PCI addresses, as CUDA and HIP number GPUs of one kind; and which
/// of them CUDA_VISIBLE_DEVICES, for AMD's ROCR_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES, leave to its program. A part of
/// a GPU (MIG) and an AMD GPU's UUID are visible by name, and where they are, is not known. None is opened. `root` is
/// "/", another folder in tests.
[[nodiscard]] GpuFacts observe_task_gpus(const Environment& environment, const std::filesystem::path& root);

/// The NUMA nodes of these CPUs, ascending (/sys/devices/system/node/nodeN/cpulist); empty: unknown. `sys` is "/sys".
[[nodiscard]] std::vector<int> numa_nodes_of(const std::vector<std::uint32_t>& cpus, const std::filesystem::path& sys);

/// Network adapters of /sys/class/infiniband (InfiniBand, RoCE, Omni-Path, EFA) with NUMA node, state and rate.
[[nodiscard]] std::vector<Device> observe_adapters(const std::filesystem::path& sys);

/// Every interface of this host with its speed (/sys/class/net/NAME/speed, Mbit/s).
[[nodiscard]] std::vector<InterfaceFacts> observe_interfaces(const std::vector<network::Interface>& interfaces,
                                                             const std::filesystem::path& sys);

/// Runs `path`/bin/python on this node: an environment that was made on a login node can lack its interpreter or its
/// libraries on a compute node.
[[nodiscard]] VenvFacts observe_venv(const std::string& path, std::chrono::duration<double> patience);

/// The versions on this node, all but rollcall's own. Slurm's comes from `scontrol --version`, PMIx's from the library
/// that would be opened; empty where there is none.
[[nodiscard]] Versions observe_versions(const TaskInputs& inputs);

/// The address under which Slurm itself reaches `host` (`scontrol show node`); empty: it does not say.
[[nodiscard]] std::string slurms_address_of(const std::string& host);

/// `scontrol show config`'s word, and of a batch job that of `scontrol show job`.
[[nodiscard]] NodeLoss observe_node_loss(const Environment& environment);

/// Whether there is a srun, whether `srun --help` lists --ddp, and whose installation Slurm's configuration files name.
[[nodiscard]] Way observe_way(const Environment& environment);

/// The path of rollcall-bench-collectives: the one of this installation, else the first of PATH. Empty: there is none.
[[nodiscard]] std::string bench_program(const Environment& environment);

/// Runs `program` as this rank's part of a short measurement of `backends`; every rank of the step does. What was given
/// to this program as options of launch settings is handed on. It is killed where it takes half a minute longer than
/// rendezvous.timeout. Rows and the first error are those that rank 0 prints.
[[nodiscard]] Collectives measure_collectives(const std::string& program, const std::vector<std::string>& backends,
                                              const settings::LaunchSettings& settings, const Environment& environment);

/// What its output says. Pure.
[[nodiscard]] Collectives read_collectives(const ChildOutput& output);

}  // namespace rollcall::doctor
