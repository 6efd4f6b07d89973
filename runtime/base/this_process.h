#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace rollcall {

// What this process can say of itself: the host that it is on, the CPUs and devices that it may
// use, the file that it came from.

/// gethostname(2), asked for here alone; empty where it fails, which Linux does for no reason but a short buffer.
[[nodiscard]] std::string this_host_name();

/// The CPUs that this process may run on (sched_getaffinity(2)), ascending, also on machines with more than 1024 of
/// them; empty where the kernel refuses. In a task whose step binds CPUs these are the task's, otherwise all of the
/// node. Thread-safe.
[[nodiscard]] std::vector<std::uint32_t> cpus_of_this_process();

/// How many they are; at least 1.
[[nodiscard]] std::uint32_t number_of_cpus();

/// Lets this process open as many files as its hard limit allows: the usual soft limit of 1024 is less than the
/// connections of a rank 0 with a thousand others. Gives the limits of before, which programs that are started later do
/// not get by themselves; nothing where the kernel refuses. setrlimit(2).
std::optional<rlimit> raise_open_files_limit();

/// Whether a device file of a GPU or another accelerator is there and this process may open it, also by the rules of
/// its cgroup. None is opened: that would wake the device. A file that may be something else (a display's) counts.
[[nodiscard]] bool sees_accelerator();

/// What find_above() has found.
struct FoundAbove {
  std::optional<std::filesystem::path> file;
  std::string
      passed_over;  ///< why something of that name is not believed: "others may write to /opt/project"; or empty
};

/// `path` below one of the folders above the file `program` (absolute, without links), at most six levels up, the
/// nearest that has it. Who owns the program, and root, are believed, nobody else: the way up ends at the first folder
/// that belongs to another or to which others may write (/tmp, a project's group), and nothing is found where that is
/// so of what lies at `path`, of a folder on the way down to it, or of a file in it.
[[nodiscard]] FoundAbove find_above(const std::filesystem::path& program, const std::filesystem::path& path);

/// The file of the program or plugin that this code was linked into, without links. Not influenced by the environment.
[[nodiscard]] std::filesystem::path own_file();

/// find_above() of that file: where `cmake --install` puts what belongs to it;
/// the build folder has the same layout. Nothing where there is none. Not influenced by the environment.
[[nodiscard]] FoundAbove find_above_own_file(const std::filesystem::path& path);

/// Bytes of memory that this process and those that share its cgroups may use together: the smallest limit of its
/// memory cgroups and of those above them (cgroups(7), versions 1 and 2), or all that the machine has. Slurm's tasks
/// are in such cgroups where the site constrains memory (cgroup.conf, ConstrainRAMSpace). 0 where nothing tells.
/// `root`: before /proc and /sys. Thread-safe.
[[nodiscard]] std::uint64_t memory_limit(const std::string& root = "");

}  // namespace rollcall
