// A SPANK plugin around another: it loads that one as Slurm would and notes the CPU time of every hook, so that the
// plugin's own cost can be told from the noise of a whole srun. plugstack.conf: optional hook_clock.so PLUGIN LOG
// [arguments of PLUGIN].
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>

#include "spank_plugin/slurm_spank.h"

SPANK_PLUGIN(hook_clock, 1)

namespace {

constexpr int kOwnArguments = 2;  // PLUGIN and LOG

double cpu_milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

int timed(const char* hook, spank_t handle, int count, char** arguments) {
  static void* plugin = nullptr;
  const double start = cpu_milliseconds();
  if (plugin == nullptr) {
    plugin = dlopen(arguments[0], RTLD_LAZY);
  }
  using Hook = int (*)(spank_t, int, char**);
  const auto function = plugin != nullptr ? reinterpret_cast<Hook>(dlsym(plugin, hook)) : nullptr;
  const int status =
      function != nullptr ? function(handle, count - kOwnArguments, arguments + kOwnArguments) : ESPANK_ERROR;
  const std::string line =
      fmt::format("{} {} {:.4f}\n", hook, static_cast<int>(spank_context()), cpu_milliseconds() - start);
  const int log = open(arguments[1], O_WRONLY | O_APPEND | O_CLOEXEC);
  if (log >= 0) {
    [[maybe_unused]] const ssize_t written = write(log, line.data(), line.size());  // one write a line: they do not mix
    close(log);
  }
  return status;
}

}  // namespace

extern "C" {
int slurm_spank_init(spank_t handle, int count, char** arguments) {
  return timed("slurm_spank_init", handle, count, arguments);
}
int slurm_spank_user_init(spank_t handle, int count, char** arguments) {
  return timed("slurm_spank_user_init", handle, count, arguments);
}
int slurm_spank_task_init(spank_t handle, int count, char** arguments) {
  return timed("slurm_spank_task_init", handle, count, arguments);
}
}
