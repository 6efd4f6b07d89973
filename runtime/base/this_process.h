#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace rollcall {

// Facts about this process: its host, the CPUs, devices and memory that it may use, and its program file.

/// Returns the host name by gethostname(2). Other code calls this function. Empty where it fails, which does not happen
/// on Linux with a buffer of this size.
[[nodiscard]] std::string this_host_name();

/// Returns the CPUs that this process may run on (sched_getaffinity(2)), in ascending order, even on machines with more
/// than 1024 CPUs. Empty where the kernel refuses. In a step that binds CPUs these are the task's CPUs, otherwise all
/// CPUs of the node. Thread-safe.
[[nodiscard]] std::vector<std::uint32_t> cpus_of_this_process();

/// Returns the number of CPUs that this process may run on, at least 1.
[[nodiscard]] std::uint32_t number_of_cpus();

/// Raises the limit of open files to the hard limit (setrlimit(2)): rank 0 of a thousand ranks has more connections
/// than the usual soft limit of 1024. Returns the previous limits, which the caller restores for programs that it
/// starts. Nothing where the kernel refuses.
std::optional<rlimit> raise_open_files_limit();

/// Returns whether a device file of a GPU or another accelerator exists that this process and its cgroup may open. The
/// device is not opened, because that would wake it. A device file that may belong to a display counts too.
[[nodiscard]] bool sees_accelerator();

/// The result of find_installed().
struct FoundInstalled {
  std::optional<std::filesystem::path> file;  ///< unset where nothing was found
  std::string passed_over;                    ///< why a file is not trusted: "others may write to /opt/project"
};

/// Looks for `path` in the folders above the file `program` (absolute, without links), at most six levels up, and
/// returns the nearest match. Only files of root and of the program's owner are trusted. The search ends at the first
/// folder that another user owns or that others may write to (/tmp, a project's group). Nothing is found where that
/// holds for `path`, a folder on the way to it, or a file in it.
[[nodiscard]] FoundInstalled find_installed(const std::filesystem::path& program, const std::filesystem::path& path);

/// Returns the file of the program or plugin that contains this code, with links resolved. The environment has no
/// influence.
[[nodiscard]] std::filesystem::path program_file();

/// Looks for a file of this installation: calls find_installed() for program_file(). The build folder has the same
/// layout as an installation. The environment has no influence.
[[nodiscard]] FoundInstalled find_in_installation(const std::filesystem::path& path);

/// Returns the bytes of memory that this process may use together with the others in its cgroups: the smallest limit of
/// its memory cgroups and their parents (cgroups(7), versions 1 and 2), or the machine's memory. Slurm puts tasks into
/// such cgroups under ConstrainRAMSpace (cgroup.conf). 0: unknown. `root` is the prefix of /proc and /sys. Thread-safe.
[[nodiscard]] std::uint64_t memory_limit(const std::string& root = "");

}  // namespace rollcall
