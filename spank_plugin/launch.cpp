#include "spank_plugin/launch.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/marker.h"
#include "runtime/job/own_environment.h"
#include "runtime/job/srun_arguments.h"
#include "runtime/settings/launch_settings.h"
#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {
namespace {

// How sbatch and salloc hand an option on to the steps inside; some versions put SLURM_SPANK_ in front.
constexpr std::string_view kHandedOn = "_SLURM_SPANK_OPTION_rollcall_ddp";

// What a program cannot do without: by each it sees that it is not alone, and none of them is a number or a host here.
constexpr std::array kIndispensable{env::kMasterAddr, env::kRank, env::kWorldSize, env::kTorchrunNodes,
                                    env::kJaxNumProcesses};

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (text.ends_with('\0')) {
    text.pop_back();
  }
  return split(text, '\0');
}

/// What this srun will be asked for, by its command line or by the job; nothing: without --ddp.
std::optional<DdpOption> option_of_this_srun() {
  if (const std::optional<std::string> text = job::srun_option(command_line(), "--ddp")) {
    return parse_option(text->c_str());
  }
  const Environment own = Environment::of_this_process();
  for (const auto& [name, value] : own.variables()) {
    if (name.ends_with(kHandedOn)) {
      return parse_option(value.c_str());
    }
  }
  return std::nullopt;
}

/// The settings as far as this host knows them: the nodes may have a profile that it lacks. Slurm tells of one --ddp up
/// to three times, and each text is loaded once: one that stays the same would be read and judged alike. One thread.
const Result<settings::Settings>& settings_here(const DdpOption& option, const settings::PluginProfile& site) {
  static std::map<std::string, Result<settings::Settings>> loaded;
  const auto known = loaded.find(option.key_values);
  if (known != loaded.end()) {
    return known->second;
  }
  settings::PluginProfile readable = site;
  if (site.file && !may_exist(*site.file)) {
    readable.file.reset();
  }
  return loaded
      .emplace(option.key_values, settings::load_launch_settings(with_home_and_user(Environment::of_this_process()),
                                                                 {.site = readable, .ddp = option.key_values}))
      .first->second;
}

std::string users_prolog() {
  const char* const text = ::getenv(env::kTaskProlog.data());
  return text == nullptr ? "" : text;
}

}  // namespace

Result<void> check_before_launch(const DdpOption& option, const settings::PluginProfile& site, bool in_srun) {
  if (!in_srun) {
    return settings::check_ddp_option(option.key_values);
  }
  const Result<settings::Settings>& settings = settings_here(option, site);
  return settings ? Result<void>() : settings.error();
}

bool announce_end_with_first_failure(const settings::PluginProfile& site) {
  const std::optional<DdpOption> option = option_of_this_srun();
  if (!option || !option->enabled || ::getenv(env::kKillOnBadExit.data()) != nullptr) {
    return false;
  }
  const Result<settings::Settings>& settings = settings_here(*option, site);
  return settings && settings->on("kill-on-bad-exit") && ::setenv(env::kKillOnBadExit.data(), "1", 1) == 0;
}

void say_if_end_with_first_failure_is_missing(const DdpOption& option, const settings::PluginProfile& site) {
  static bool said = false;
  const bool is_told_otherwise = ::getenv(env::kKillOnBadExit.data()) != nullptr;
  if (said || !option.enabled || is_told_otherwise || option_of_this_srun()) {
    return;
  }
  const Result<settings::Settings>& settings = settings_here(option, site);
  if (settings && settings->on("kill-on-bad-exit")) {
    said = true;
    slurm_spank_log(
        "rollcall: note: --ddp: was not recognised in time to end the step with its first failing task; write it in "
        "full and as srun's first option, or add --kill-on-bad-exit");
  }
}

void withdraw_end_with_first_failure() { ::unsetenv(env::kKillOnBadExit.data()); }

void make_a_missing_node_half_an_error() {
  if (job::srun_option(command_line(), "--interactive")) {
    return;  // salloc's shell, whose own sruns will do so
  }
  const Environment own = Environment::of_this_process();
  job::Marker marker = job::marker_of(own);
  for (const std::string_view name : kIndispensable) {
    if (!job::set_by_user(own, name)) {
      ::setenv(name.data(), env::kPluginMissing.data(), 1);
      marker.insert_or_assign(std::string(name), job::fnv1a(env::kPluginMissing));
    }
  }
  ::setenv(env::kMarker.data(), job::to_text(marker).c_str(), 1);
}

void drop_values_of_step_around() {
  for (const std::string& name : job::marked_values(Environment::of_this_process())) {
    ::unsetenv(name.c_str());
  }
}

void drop_values_of_another_job(const DdpOption& option) {
  static bool done = false;
  if (done || !option.enabled) {
    return;
  }
  done = true;
  const Environment all = Environment::of_this_process();
  const Environment own = job::own_environment(all, job::Asking::ForItself);
  for (const auto& [name, value] : all.variables()) {
    const bool of_job = name.starts_with("SLURM_ARRAY_") || name == env::kSlurmRestartCount;
    if (of_job && !own.get(name)) {
      ::unsetenv(name.c_str());
    }
  }
}

void warn_of_binding_of_another_step(const DdpOption& option) {
  static bool said = false;
  const Environment own = Environment::of_this_process();
  const std::string bind = own.get("SLURM_CPU_BIND").value_or("");
  // Slurm gives a task all four; who sets a binding of their own sets the first.
  const std::string tasks = own.get("SLURM_CPU_BIND_VERBOSE").value_or("") + "," +
                            own.get("SLURM_CPU_BIND_TYPE").value_or("") + own.get("SLURM_CPU_BIND_LIST").value_or("");
  const bool is_one_tasks = bind == tasks && bind.find("_cpu:") != bind.npos;
  if (said || !option.enabled || !is_one_tasks || job::srun_option(command_line(), "--cpu-bind")) {
    return;
  }
  said = true;
  slurm_spank_log(
      "rollcall: warning: SLURM_CPU_BIND: %s: is of a task of another step, which called srun or submitted this job, "
      "and srun binds all tasks to that one's CPUs; try unset ${!SLURM_CPU_BIND@} before srun",
      printable(bind).c_str());
}

void announce_task_prolog(const std::string& program) {
  ::unsetenv(env::kHandedOption.data());
  ::unsetenv(env::kUsersTaskProlog.data());
  if (!option_of_this_srun()) {
    return;  // but not where it is off in the end: `--ddp --ddp=off` asks for it first
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
    return fail("--ddp", "", "was not recognised in time", "writing it in full, as srun's first option");
  }
  if (job::srun_option(command_line(), "--task-prolog")) {
    return fail("--task-prolog", "",
                "takes the place of the task prolog that --ddp needs where only you installed rollcall",
                "SLURM_TASK_PROLOG=PROGRAM srun --ddp ..., which runs both");
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
        printable(conf).c_str());
  }
}

}  // namespace rollcall::spank
