#include "spank_plugin/submit.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "runtime/contract/hook_wire.h"
#include "spank_plugin/buffer.h"
#include "spank_plugin/layout.h"
#include "spank_plugin/request.h"

namespace rollcall::spank {
namespace {

/// A part of the variable in which sbatch and salloc pass the option to steps.
constexpr const char* kHandedOn = "SLURM_SPANK_OPTION_rollcall_ddp=";

bool is_handed_on() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strstr(*entry, kHandedOn) != nullptr) {
      return true;
    }
  }
  return false;
}

/// Returns whether a word of this process's command line begins with `option`.
bool is_on_command_line(std::string_view option) {
  const int file = ::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  char buffer[4096];
  std::size_t matched = 0;  // matching characters of the current word
  bool found = false;
  for (ssize_t got = 0; !found && file >= 0 && (got = ::read(file, buffer, sizeof buffer)) > 0;) {
    for (ssize_t i = 0; i < got && !found; ++i) {
      constexpr std::size_t kOther = ~std::size_t{0};
      matched = buffer[i] == '\0' ? 0 : matched != kOther && buffer[i] == option[matched] ? matched + 1 : kOther;
      found = matched == option.size();
    }
  }
  if (file >= 0) {
    ::close(file);
  }
  return found;
}

}  // namespace

bool init_has_work(const Site& site) {
  if (spank_context() == S_CTX_ALLOCATOR) {
    return ::getenv("ROLLCALL_SET") != nullptr;
  }
  const bool is_left_over =
      ::getenv("SLURM_ROLLCALL_DDP") != nullptr || ::getenv("SLURM_ROLLCALL_TASK_PROLOG") != nullptr;
  return is_on_command_line("--ddp") || is_handed_on() || (site.task_prolog != nullptr && is_left_over);
}

Failure submit(spank_t spank, const Site& site, const char* hook, const char* option) {
  Request request(spank, site, -1);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    request.variable(*entry);
  }
  if (spank_context() == S_CTX_LOCAL) {
    request.item("srun", "yes");
  }
  if (option != nullptr) {
    request.item("option", option);
  }
  // srun calls the last hook for each component of a heterogeneous step, also for those without --ddp.
  static bool has_begun = false;
  if (std::strcmp(hook, "post_opt") == 0) {
    if (has_begun) {
      request.item("later_component", "yes");
    }
    has_begun = has_begun || option != nullptr;
  }
  return request.ask(hook);
}

void export_head_address(spank_t spank) {
  const char* const wanted = ::getenv(hook::kHeadAddress);
  std::uint32_t job = 0;
  std::uint32_t step = 0;
  Buffer address;
  if (wanted != nullptr && std::strcmp(wanted, hook::kWanted) == 0 &&
      spank_get_item(spank, S_JOB_ID, &job) == ESPANK_SUCCESS &&
      spank_get_item(spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS && append_head_address(job, step, address)) {
    ::setenv(hook::kHeadAddress, address.c_str(), 1);
  }
}

}  // namespace rollcall::spank
