#include "runtime/base/this_process.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/owned_file.h"
#include "runtime/base/result.h"
#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/base/trusted_file.h"

namespace rollcall {
namespace {

/// Returns why the file at `path` is not trusted: neither root nor `owner` owns it, or others may write to it. Empty
/// where it is trusted.
std::string objection(const std::filesystem::path& path, uid_t owner) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return fmt::format("{}: {}", path.string(), errno_text(errno));
  }
  const std::optional<TrustProblem> found = trust_problem(status, path.string(), TrustedOwners{.users = {owner}});
  return found ? found->reason : "";
}

/// Checks all entries from the folder `above` (without links) to `path` with its links resolved (bin/rollcall-train is
/// one), and the files in it where it is a folder.
std::string objection_on_the_way(std::filesystem::path above, const std::filesystem::path& path, uid_t owner) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(above / path, error);
  std::string found;
  for (const std::filesystem::path& part : error ? path : real.lexically_relative(above)) {
    above = part == ".." ? above.parent_path() : above / part;
    if (found = objection(above, owner); !found.empty()) {
      return found;
    }
  }
  for (const std::filesystem::path& entry : entries_of(above)) {
    if (found = objection(entry, owner); !found.empty()) {
      return found;
    }
  }
  return found;
}

/// Returns whether `path` exists below `above` and belongs to root or `owner`; it may be a link (bin/rollcall-train),
/// but the folders on the way may not. Links are not followed, because those of other users may lead to a file server
/// that does not respond. Other users' files do not count.
bool was_installed(std::filesystem::path above, const std::filesystem::path& path, uid_t owner) {
  struct stat status {};
  for (const std::filesystem::path& part : path) {
    if (S_ISLNK(status.st_mode)) {
      return false;
    }
    above /= part;
    if (::lstat(above.c_str(), &status) != 0) {
      return false;
    }
  }
  return is_roots_or(owner, status);
}

/// Reads the affinity with a mask for `cpus` CPUs. Nothing, with errno set, where the kernel refuses it.
std::optional<std::vector<std::uint32_t>> affinity(std::size_t cpus) {
  struct Free {
    void operator()(cpu_set_t* mask) const { CPU_FREE(mask); }
  };
  const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
  const std::unique_ptr<cpu_set_t, Free> mask(CPU_ALLOC(cpus));
  if (!mask || sched_getaffinity(0, bytes, mask.get()) != 0) {
    return std::nullopt;
  }
  std::vector<std::uint32_t> allowed;
  for (std::uint32_t cpu = 0; cpu < cpus; ++cpu) {
    if (CPU_ISSET_S(cpu, bytes, mask.get())) {
      allowed.push_back(cpu);
    }
  }
  return allowed;
}

}  // namespace

std::string this_host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size()) == 0 ? name.data() : "";
}

std::vector<std::uint32_t> cpus_of_this_process() {
  // The kernel refuses a mask smaller than its own (EINVAL), so grow it until it fits (sched_setaffinity(2), NOTES).
  constexpr std::size_t kMostCpus = 1 << 20;
  for (std::size_t cpus = 1024; cpus <= kMostCpus; cpus *= 2) {
    if (std::optional<std::vector<std::uint32_t>> allowed = affinity(cpus)) {
      return *std::move(allowed);
    }
    if (errno != EINVAL) {
      break;
    }
  }
  return {};
}

std::uint32_t number_of_cpus() {
  return static_cast<std::uint32_t>(std::max<std::size_t>(1, cpus_of_this_process().size()));
}

std::optional<rlimit> raise_open_files_limit() {
  rlimit before{};
  if (getrlimit(RLIMIT_NOFILE, &before) != 0) {
    return std::nullopt;
  }
  rlimit raised = before;
  raised.rlim_cur = raised.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? std::optional(before) : std::nullopt;
}

bool sees_accelerator() {
  struct Folder {
    const char* path;
    std::vector<const char*> patterns;
  };
  // NVIDIA, AMD, TPU, Huawei, AWS, Cambricon, Moore Threads; Intel and other displays; Habana and TPU; TPU.
  const std::array<Folder, 4> folders{
      Folder{
          "/dev",
          {"nvidia[0-9]*", "kfd", "accel[0-9]*", "davinci[0-9]*", "neuron[0-9]*", "cambricon_dev[0-9]*", "mthreads*"}},
      Folder{"/dev/dri", {"renderD*"}}, Folder{"/dev/accel", {"accel*"}}, Folder{"/dev/vfio", {"[0-9]*"}}};
  for (const Folder& folder : folders) {
    for (const std::filesystem::path& path : entries_of(folder.path)) {
      const std::string name = path.filename().string();
      const auto fits = [&](const char* pattern) { return ::fnmatch(pattern, name.c_str(), 0) == 0; };
      if (std::ranges::any_of(folder.patterns, fits) && ::access(path.c_str(), R_OK | W_OK) == 0) {
        return true;
      }
    }
  }
  return false;
}

FoundInstalled find_installed(const std::filesystem::path& program, const std::filesystem::path& path) {
  constexpr int kLevels = 6;  // PREFIX/lib/ARCHITECTURE/rollcall/22.05-1c291ca3/bin/rollcall
  struct stat status {};
  if (::stat(program.c_str(), &status) != 0) {
    return {};
  }
  const uid_t owner = status.st_uid;
  std::filesystem::path above = program.parent_path();
  std::string known;
  for (int level = 0; level < kLevels && above.has_relative_path(); ++level) {
    known = known.empty() ? objection(above, owner) : known;
    if (!known.empty()) {
      if (was_installed(above, path, owner)) {
        return {std::nullopt, known};
      }
    } else if (struct stat found{}; ::stat((above / path).c_str(), &found) == 0) {
      known = objection_on_the_way(above, path, owner);
      return known.empty() ? FoundInstalled{above / path, ""} : FoundInstalled{std::nullopt, known};
    } else if (errno != ENOENT && errno != ENOTDIR) {  // the file may exist here, nearer than in the folders above
      return {std::nullopt, fmt::format("{}: {}", (above / path).string(), errno_text(errno))};
    }
    above = above.parent_path();
  }
  return {};
}

std::filesystem::path program_file() {
  Dl_info info{};
  std::error_code error;
  const int known = ::dladdr(reinterpret_cast<const void*>(&program_file), &info);
  const std::filesystem::path loaded = known != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
  const bool shared_object = loaded.is_absolute() && loaded.extension() == ".so";
  // The loader knows a program only by the typed name, which may lack the folder; /proc/self/exe is complete.
  return std::filesystem::canonical(shared_object ? loaded : std::filesystem::path("/proc/self/exe"), error);
}

FoundInstalled find_in_installation(const std::filesystem::path& path) { return find_installed(program_file(), path); }

namespace {

/// Reads the line "MemTotal:       24602816 kB" of /proc/meminfo.
std::optional<std::uint64_t> memory_of_machine(const std::string& root) {
  for (const std::string& line : split(content_of(root + "/proc/meminfo"), '\n')) {
    if (line.starts_with("MemTotal:")) {
      const std::string_view number = trim(std::string_view(line).substr(line.find(':') + 1));
      const auto kibibytes = parse_integer<std::uint64_t>(number.substr(0, number.find(' ')));
      return kibibytes ? std::optional(*kibibytes * 1024) : std::nullopt;
    }
  }
  return std::nullopt;
}

/// Returns the smallest number in the files `name` of the folder `mount` + `group` and its parents up to `mount`. Files
/// without a number ("max") and missing folders (a container sees part of the tree) are skipped.
std::optional<std::uint64_t> smallest(const std::string& mount, const std::string& group, const std::string& name) {
  std::optional<std::uint64_t> limit;
  for (std::filesystem::path folder = group; !folder.empty(); folder = folder.parent_path()) {
    const std::filesystem::path file = std::filesystem::path(mount + folder.string()) / name;
    if (const auto bytes = parse_integer<std::uint64_t>(first_line_of(file))) {
      limit = std::min(limit.value_or(*bytes), *bytes);
    }
    if (folder == folder.parent_path()) {
      break;
    }
  }
  return limit;
}

/// Returns the limit for a line of /proc/self/cgroup: "0::/path" (version 2) or "4:memory:/path" (version 1).
std::optional<std::uint64_t> limit_of_line(const std::string& root, const std::string& line) {
  const std::size_t first = line.find(':');
  const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
  if (second == std::string::npos) {
    return std::nullopt;
  }
  const std::string group = line.substr(second + 1);
  const std::vector<std::string> controllers = split(line.substr(first + 1, second - first - 1), ',');
  if (controllers.empty()) {
    return smallest(root + "/sys/fs/cgroup", group, "memory.max");
  }
  return std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()
             ? smallest(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes")
             : std::nullopt;
}

}  // namespace

std::uint64_t memory_limit(const std::string& root) {
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t limit = memory_of_machine(root).value_or(kNone);
  for (const std::string& line : split(content_of(root + "/proc/self/cgroup"), '\n')) {
    limit = std::min(limit, limit_of_line(root, line).value_or(kNone));
  }
  return limit == kNone ? 0 : limit;
}

}  // namespace rollcall
