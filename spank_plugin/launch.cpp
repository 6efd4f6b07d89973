#include "spank_plugin/launch.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/settings/launch_settings.h"
#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {
namespace {

// How sbatch and salloc hand an option on to the steps inside; some versions put SLURM_SPANK_ in front.
constexpr std::string_view kHandedOn = "_SLURM_SPANK_OPTION_rollcall_ddp";

/// srun's own arguments up to "--". The program's cannot be told from them before srun has parsed its options.
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string& argument : split(std::string(std::istreambuf_iterator<char>(file), {}), '\0')) {
    if (argument == "--") {
      break;
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

bool seems_to_ask_for_ddp() {
  for (const std::string& argument : own_arguments()) {
    if (argument.starts_with("--ddp")) {
      return true;
    }
  }
  const Environment own = Environment::of_this_process();
  for (const auto& [name, value] : own.variables()) {
    if (name.ends_with(kHandedOn)) {
      return true;
    }
  }
  return false;
}

std::string users_prolog() {
  const char* const text = ::getenv(env::kTaskProlog.data());
  return text == nullptr ? "" : text;
}

}  // namespace

Result<void> check_before_launch(const DdpOption& option, const std::optional<std::string>& site_file, bool in_srun) {
  if (!in_srun) {
    return settings::check_ddp_option(option.key_values);
  }
  const bool there = site_file && ::access(site_file->c_str(), F_OK) == 0;
  const auto settings = settings::load_launch_settings(
      Environment::of_this_process(), {.site_file = there ? site_file : std::nullopt, .ddp = option.key_values});
  return settings ? Result<void>() : settings.error();
}

void announce_task_prolog(const std::string& program) {
  ::unsetenv(env::kHandedOption.data());
  ::unsetenv(env::kUsersTaskProlog.data());
  if (!seems_to_ask_for_ddp()) {
    return;
  }
  if (const std::string users = users_prolog(); !users.empty() && users != program) {
    ::setenv(env::kUsersTaskProlog.data(), users.c_str(), 1);
  }
  ::setenv(env::kTaskProlog.data(), program.c_str(), 1);
}

Result<void> hand_to_task_prolog(const std::string& program, const DdpOption& option) {
  if (!option.enabled) {
    ::unsetenv(env::kHandedOption.data());
    return {};
  }
  if (users_prolog() != program) {
    return fail("--ddp", "", "was not recognised in time", "writing it in full, on srun's command line");
  }
  for (const std::string& argument : own_arguments()) {
    if (argument.starts_with("--task-prolog")) {
      return fail("--task-prolog", "",
                  "takes the place of the task prolog that --ddp needs where only you installed rollcall",
                  "SLURM_TASK_PROLOG=PROGRAM srun --ddp ..., which runs both (an option of your own program: write -- "
                  "before the program)");
    }
  }
  ::setenv(env::kHandedOption.data(), option.key_values.c_str(), 1);
  return {};
}

void say_what_a_batch_script_needs() {
  static bool said = false;
  const char* const conf = ::getenv("SLURM_CONF");
  if (!said && conf != nullptr && std::string_view(program_invocation_short_name) == "sbatch") {
    said = true;
    slurm_spank_log(
        "rollcall: note: --ddp: inside the job Slurm reads the site's configuration again; put the line "
        "`export SLURM_CONF=%s` into the script, before srun",
        conf);
  }
}

}  // namespace rollcall::spank
