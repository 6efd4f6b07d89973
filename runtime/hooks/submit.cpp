#include "runtime/hooks/submit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/contract/hook_wire.h"
#include "runtime/hooks/plugin_site.h"
#include "runtime/job/marker.h"
#include "runtime/job/own_environment.h"
#include "runtime/job/srun_arguments.h"
#include "runtime/network/network_view.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::hooks {
namespace {

// The variable in which sbatch and salloc pass the option to steps; some versions put SLURM_SPANK_ in front.
constexpr std::string_view kHandedOn = "_SLURM_SPANK_OPTION_rollcall_ddp";

// Variables that show a program that it is not alone. The placeholder, which is not a number or a host, makes it fail.
constexpr std::array kIndispensable{env::kMasterAddr, env::kRank, env::kWorldSize, env::kTorchrunNodes,
                                    env::kJaxNumProcesses};

std::vector<std::string> command_line_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", process), std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (text.ends_with('\0')) {
    text.pop_back();
  }
  return split(text, '\0');
}

constexpr std::string_view kOff = "off";

/// Slurm passes a --ddp without an argument as "(null)".
std::string without_null(std::string text) { return text == "(null)" ? "" : std::move(text); }

std::string users_prolog(const Environment& environment) { return environment.get(env::kTaskProlog).value_or(""); }

bool has_kill_on_bad_exit(const Environment& environment) { return environment.get(env::kKillOnBadExit).has_value(); }

}  // namespace

Submit::Submit(PluginLink& plugin) : plugin_(plugin), command_line_(command_line_of(::getppid())) {}

Result<void> Submit::serve(const Request& request) {
  const bool in_srun = request.item("srun").has_value();
  const std::optional<std::string> prolog = request.item("task_prolog");
  if (request.hook == "option") {
    return take_option(request);
  }
  if (request.hook == "init" && in_srun) {
    set_kill_on_bad_exit(request);
    if (prolog) {
      set_task_prolog(*prolog, request.environment);
    }
  } else if (request.hook == "init") {
    // In sbatch and salloc: the new job would inherit the ranks of the calling step, and a program that is started
    // there without srun would wait for them.
    for (const std::string& name : job::marked_values(request.environment)) {
      plugin_.unset(name);
    }
  } else {
    if (request.item("option")) {
      if (!request.item("later_component")) {  // all components have srun's environment
        drop_other_jobs_variables(request.environment);
      }
      request_head_address(request);
    }
    if (ends_with_first_failure_) {
      plugin_.unset(env::kKillOnBadExit);  // srun has read it; srun calls inside the step must not inherit it
    }
    // With a task prolog, Slurm itself ends a task where that is missing.
    if (!prolog && request.item("option")) {
      set_placeholders(request.environment);
    }
  }
  return {};
}

/// Checks the option once, before the step starts.
Result<void> Submit::take_option(const Request& request) {
  const bool in_srun = request.item("srun").has_value();
  const std::optional<std::string> option = request.item("option");
  if (option) {
    RETURN_IF_ERROR(check(request, *option, in_srun));
  }
  if (option && in_srun) {
    note_missing_kill_on_bad_exit(request, *option);
    warn_about_inherited_binding(request.environment);
  }
  const std::optional<std::string> prolog = request.item("task_prolog");
  if (prolog && in_srun) {
    return pass_to_task_prolog(*prolog, request);
  }
  if (prolog && option) {
    note_batch_script_needs(request.environment);
  }
  return {};
}

/// Checks all layers of settings in srun, but only the option in sbatch and salloc, whose environment may differ from
/// the step's.
Result<void> Submit::check(const Request& request, const std::string& option, bool in_srun) {
  if (!in_srun) {
    return settings::check_ddp_option(option);
  }
  const Result<settings::LaunchSettings>& settings = settings_here(request, option);
  return settings ? Result<void>() : settings.error();
}

/// Returns the settings on this host, and caches them by option. A site profile that does not exist on the submitting
/// host is not an error, because the nodes may have it. One that the user may not read is an error, as on every node.
const Result<settings::LaunchSettings>& Submit::settings_here(const Request& request, const std::string& option) {
  const auto known = loaded_.find(option);
  if (known != loaded_.end()) {
    return known->second;
  }
  settings::PluginProfile site = site_of(request);
  if (site.file && !may_exist(*site.file)) {
    site.file.reset();
  }
  const Result<settings::Settings> here =
      settings::load_launch_settings(with_home_and_user(request.environment), {.site = std::move(site), .ddp = option});
  using Loaded = Result<settings::LaunchSettings>;
  return loaded_.emplace(option, here ? Loaded(*here) : Loaded(here.error())).first->second;
}

/// Returns the argument of --ddp from srun's command line or from the job; nothing without --ddp.
std::optional<std::string> Submit::option_of_this_srun(const Environment& environment) const {
  if (std::optional<std::string> text = job::srun_option(command_line_, "--ddp")) {
    return without_null(*std::move(text));
  }
  for (const auto& [name, value] : environment.variables()) {
    if (name.ends_with(kHandedOn)) {
      return without_null(value);
    }
  }
  return std::nullopt;
}

/// Sets SLURM_KILL_BAD_EXIT before srun reads it, so that Slurm ends the step with its first failing task: programs
/// would wait long for the ranks of that task. The user's own variable is kept, and --kill-on-bad-exit on the command
/// line overrides both.
void Submit::set_kill_on_bad_exit(const Request& request) {
  const std::optional<std::string> option = option_of_this_srun(request.environment);
  if (!option || option == kOff || has_kill_on_bad_exit(request.environment)) {
    return;
  }
  const Result<settings::LaunchSettings>& settings = settings_here(request, *option);
  if (settings && settings->kill_on_bad_exit) {
    plugin_.set(env::kKillOnBadExit, "1");
    ends_with_first_failure_ = true;
  }
}

/// Prints a note where set_kill_on_bad_exit() did not see --ddp, because it is abbreviated or follows an unknown
/// option.
void Submit::note_missing_kill_on_bad_exit(const Request& request, const std::string& option) {
  if (has_kill_on_bad_exit(request.environment) || option_of_this_srun(request.environment)) {
    return;
  }
  const Result<settings::LaunchSettings>& settings = settings_here(request, option);
  if (settings && settings->kill_on_bad_exit && first("missing end")) {
    plugin_.note(
        "rollcall: warning: --ddp: was recognised too late to end the step with its first failing task; try writing it "
        "in full as srun's first option, or adding --kill-on-bad-exit");
  }
}

/// Sets placeholders that let programs fail, for the variables that the plugin on the node will set (except the user's
/// own), and marks them as rollcall's. On a node without the plugin, or with one for another Slurm, a program would
/// otherwise train alone and end with 0 while the others wait for it.
void Submit::set_placeholders(const Environment& environment) {
  if (job::srun_option(command_line_, "--interactive")) {
    return;  // salloc's shell; srun calls in it set them
  }
  job::Marker marker = job::marker_of(environment);
  for (const std::string_view name : kIndispensable) {
    if (!job::set_by_user(environment, name)) {
      plugin_.set(name, env::kPluginMissing);
      marker.insert_or_assign(std::string(name), job::fnv1a(env::kPluginMissing));
    }
  }
  plugin_.set(env::kMarker, job::to_text(marker));
}

/// Removes the array variables and restart count of another job that submitted this one, so that tasks do not inherit
/// them. Asks slurmctld where the environment has such variables.
void Submit::drop_other_jobs_variables(const Environment& environment) {
  const Environment own = job::with_slurmctld_facts(job::own_environment(environment), job::SlurmctldQuery::PerProcess);
  for (const auto& [name, value] : environment.variables()) {
    const bool of_job = name.starts_with("SLURM_ARRAY_") || name == env::kSlurmRestartCount;
    if (of_job && !own.get(name)) {
      plugin_.unset(name);
    }
  }
}

/// Lets srun ask slurmctld once for the address under host.template={nodeaddr}, instead of every node.
void Submit::request_head_address(const Request& request) {
  const Result<settings::LaunchSettings>& settings = settings_here(request, *request.item("option"));
  const bool wanted = settings && settings->host_template == network::kNodeAddressTemplate;
  if (wanted && !request.item("task_prolog")) {
    plugin_.set(hook::kHeadAddress, hook::kWanted);
  } else if (request.environment.get(hook::kHeadAddress)) {
    plugin_.unset(hook::kHeadAddress);
  }
}

/// Warns where SLURM_CPU_BIND is not the user's, but that of a task in the step that called this srun or submitted the
/// job. srun would bind all tasks to the CPUs of that task.
void Submit::warn_about_inherited_binding(const Environment& environment) {
  const auto value = [&](std::string_view name) { return environment.get(name).value_or(""); };
  const std::string bind = value("SLURM_CPU_BIND");
  // Slurm sets all four variables; a user sets only the first.
  const std::string tasks =
      value("SLURM_CPU_BIND_VERBOSE") + "," + value("SLURM_CPU_BIND_TYPE") + value("SLURM_CPU_BIND_LIST");
  const bool is_one_tasks = bind == tasks && bind.find("_cpu:") != bind.npos;
  if (is_one_tasks && !job::srun_option(command_line_, "--cpu-bind") && first("binding")) {
    plugin_.note(fmt::format(
        "rollcall: warning: SLURM_CPU_BIND: {}: was inherited from a task of another step, and srun binds all tasks to "
        "the CPUs of that task; try `unset ${{!SLURM_CPU_BIND@}}` before srun",
        printable(bind)));
  }
}

// With `rollcall install --user` the plugin does not run on the nodes, and a task prolog does its work. The plugin's
// line in plugstack.conf then has `task_prolog=PATH`.

/// Sets `program` as the step's task prolog if this srun has --ddp. It must be called in "init". `program` runs the
/// user's own SLURM_TASK_PROLOG.
void Submit::set_task_prolog(const std::string& program, const Environment& environment) {
  plugin_.unset(env::kForwardedOption);
  plugin_.unset(env::kUserTaskProlog);
  if (!option_of_this_srun(environment)) {
    return;  // `--ddp --ddp=off` is recognised only later
  }
  if (const std::string users = users_prolog(environment); !users.empty() && users != program) {
    plugin_.set(env::kUserTaskProlog, users);
  }
  plugin_.set(env::kTaskProlog, program);
}

/// Passes the option to the task prolog. Error: the prolog will not run, because --task-prolog replaces it or --ddp was
/// abbreviated.
Result<void> Submit::pass_to_task_prolog(const std::string& program, const Request& request) {
  const std::optional<std::string> option = request.item("option");
  if (!option) {
    plugin_.unset(env::kForwardedOption);
    return {};
  }
  if (users_prolog(request.environment) != program) {
    return fail("--ddp", "", "was recognised too late", "writing it in full as srun's first option");
  }
  if (job::srun_option(command_line_, "--task-prolog")) {
    return fail("--task-prolog", "", "replaces the task prolog that --ddp needs in a user's installation",
                "SLURM_TASK_PROLOG=PROGRAM srun --ddp ..., which runs both");
  }
  plugin_.set(env::kForwardedOption, *option);
  return {};
}

/// Prints a note for sbatch: inside the job Slurm uses the site's configuration again.
void Submit::note_batch_script_needs(const Environment& environment) {
  const std::optional<std::string> conf = environment.get("SLURM_CONF");
  const std::string& program = command_line_.front();
  if (conf && program.substr(program.rfind('/') + 1) == "sbatch" && first("batch script")) {
    plugin_.note(fmt::format(
        "rollcall: --ddp: inside the job Slurm uses the site's configuration; try `export SLURM_CONF={}` in "
        "the script, before srun",
        printable(*conf)));
  }
}

}  // namespace rollcall::hooks
