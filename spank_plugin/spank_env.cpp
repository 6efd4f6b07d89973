#include "spank_plugin/spank_env.h"

#include <slurm/slurm.h>

#include <array>

namespace rollcall::spank {
namespace {

constexpr int kFirstGuess = 256;
constexpr int kLongest = 1 << 22;  // beyond the kernel's own limit of one variable (128 KiB)

constexpr std::array kTaskVariables{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURMD_NODENAME",
                                    "PMIX_RANK",    "PMI_RANK",      "SLURM_GTIDS"};

}  // namespace

std::optional<std::string> get_variable(spank_t spank, const std::string& name) {
  for (int size = kFirstGuess; size <= kLongest; size *= 4) {
    std::string buffer(static_cast<std::size_t>(size), '\0');
    const int status = spank_getenv(spank, name.c_str(), buffer.data(), size);
    if (status == ESPANK_SUCCESS) {
      buffer.resize(buffer.find('\0'));
      return buffer;
    }
    if (status != ESPANK_NOSPACE) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

Environment snapshot(spank_t spank) {
  char** entries = nullptr;
  if (spank_get_item(spank, S_JOB_ENV, &entries) != ESPANK_SUCCESS) {
    entries = nullptr;
  }
  Environment environment = Environment::from_entries(entries);
  for (const char* name : kTaskVariables) {
    if (std::optional<std::string> value = get_variable(spank, name)) {
      environment.set(name, std::move(*value));
    }
  }
  return environment;
}

Result<void> apply(spank_t spank, const resolve::EnvPatch& patch) {
  for (const resolve::EnvChange& change : patch.changes) {
    int status = ESPANK_SUCCESS;
    if (change.action == resolve::Action::Set) {
      status = spank_setenv(spank, change.name.c_str(), change.value.c_str(), 1);
    } else if (change.action == resolve::Action::Unset) {
      status = spank_unsetenv(spank, change.name.c_str());
    }
    if (status != ESPANK_SUCCESS) {
      return fail(change.name, change.value,
                  std::string("Slurm refused it: ") + spank_strerror(static_cast<spank_err_t>(status)),
                  "reporting it to your administrator", ExitCode::Internal);
    }
  }
  return {};
}

std::optional<std::uint32_t> item(spank_t spank, spank_item_t name) {
  std::uint32_t value = 0;
  return spank_get_item(spank, name, &value) == ESPANK_SUCCESS ? std::optional(value) : std::nullopt;
}

bool is_srun_step(spank_t spank) {
  const std::optional<std::uint32_t> step = item(spank, S_JOB_STEPID);
  return step && *step < SLURM_MAX_NORMAL_STEP_ID;
}

}  // namespace rollcall::spank
