#include "runtime/base/this_process.h"

#include <dlfcn.h>
#include <glob.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <memory>

namespace rollcall {
namespace {

/// The file of the program or plugin that this function was linked into. For a program the loader knows only what was
/// typed, which may lack the folder: then the kernel tells.
std::filesystem::path own_file() {
  Dl_info info{};
  std::error_code error;
  const int known = ::dladdr(reinterpret_cast<const void*>(&find_above_own_file), &info);
  const std::filesystem::path loaded = known != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
  const bool shared_object = loaded.is_absolute() && loaded.extension() == ".so";
  return std::filesystem::canonical(shared_object ? loaded : std::filesystem::path("/proc/self/exe"), error);
}

/// The CPUs of a mask that has room for `cpus` of them; nothing, and errno, where the kernel refuses it.
std::optional<std::vector<std::uint32_t>> affinity(int cpus) {
  struct Free {
    void operator()(cpu_set_t* mask) const { CPU_FREE(mask); }
  };
  const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
  const std::unique_ptr<cpu_set_t, Free> mask(CPU_ALLOC(cpus));
  if (!mask || sched_getaffinity(0, bytes, mask.get()) != 0) {
    return std::nullopt;
  }
  std::vector<std::uint32_t> allowed;
  for (std::uint32_t cpu = 0; cpu < static_cast<std::uint32_t>(cpus); ++cpu) {
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
  constexpr int kMostCpus = 1 << 20;
  for (int cpus = 1024; cpus <= kMostCpus; cpus *= 2) {
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

bool sees_accelerator() {
  // NVIDIA, AMD, Intel and other displays, Habana and TPU, TPU, Huawei, AWS, Cambricon, Moore Threads.
  for (const char* const pattern :
       {"/dev/nvidia[0-9]*", "/dev/kfd", "/dev/dri/renderD*", "/dev/accel*/accel*", "/dev/accel[0-9]*",
        "/dev/vfio/[0-9]*", "/dev/davinci[0-9]*", "/dev/neuron[0-9]*", "/dev/cambricon_dev[0-9]*", "/dev/mthreads*"}) {
    glob_t found{};
    bool usable = false;
    if (::glob(pattern, GLOB_NOSORT, nullptr, &found) == 0) {
      usable = std::any_of(found.gl_pathv, found.gl_pathv + found.gl_pathc,
                           [](const char* path) { return ::access(path, R_OK | W_OK) == 0; });
    }
    ::globfree(&found);
    if (usable) {
      return true;
    }
  }
  return false;
}

std::optional<std::filesystem::path> find_above_own_file(const std::filesystem::path& path) {
  constexpr int kLevels = 4;  // PREFIX/lib/ARCHITECTURE/rollcall/spank_rollcall.so
  std::filesystem::path above = own_file().parent_path();
  for (int level = 0; level < kLevels && above.has_relative_path(); ++level, above = above.parent_path()) {
    std::error_code error;
    if (std::filesystem::exists(above / path, error)) {
      return above / path;
    }
  }
  return std::nullopt;
}

}  // namespace rollcall
