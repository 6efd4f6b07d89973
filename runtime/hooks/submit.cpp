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

// How sbatch and salloc hand an option on to the steps inside; some versions put SLURM_SPANK_ in front.
constexpr std::string_view kHandedOn = "_SLURM_SPANK_OPTION_rollcall_ddp";

// What a program cannot do without: by each it sees that it is not alone, and none of them is a number or a host here.
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

/// A bare --ddp as Slurm hands it on.
std::string without_null(std::string text) { return text == "(null)" ? "" : std::move(text); }

std::string users_prolog(const Environment& environment) { return environment.get(env::kTaskProlog).value_or(""); }

bool is_told_about_first_failure(const Environment& environment) {
  return environment.get(env::kKillOnBadExit).has_value();
}

}  // namespace

Submit::Submit(PluginLink& plugin) : plugin_(plugin), command_line_(command_line_of(::getppid())) {}

Result<void> Submit::serve(const Request& request) {
  const bool in_srun = request.item("srun").has_value();
  const std::optional<std::string> prolog = request.item("task_prolog");
  if (request.hook == "option") {
    return take_option(request);
  }
  if (request.hook == "init" && in_srun) {
    announce_end_with_first_failure(request);
    if (prolog) {
      announce_task_prolog(*prolog, request.environment);
    }
  } else if (request.hook == "init") {
    // In sbatch and salloc: the new job would have the ranks of the step that this was called in, and a program there
    // that srun did not start would wait for them.
    for (const std::string& name : job::marked_values(request.environment)) {
      plugin_.unset(name);
    }
  } else {
    if (request.item("option")) {
      if (!request.item("later_component")) {  // all have one environment, srun's
        drop_values_of_another_job(request.environment);
      }
      say_whether_nodes_want_an_address(request);
    }
    if (ends_with_first_failure_) {
      plugin_.unset(env::kKillOnBadExit);  // srun has read it, and the step's own sruns shall not find it
    }
    // Slurm itself fails a task whose prolog is missing.
    if (!prolog && request.item("option")) {
      make_a_missing_node_half_an_error(request.environment);
    }
  }
  return {};
}

/// Mistakes are refused here, once, before anything starts.
Result<void> Submit::take_option(const Request& request) {
  const bool in_srun = request.item("srun").has_value();
  const std::optional<std::string> option = request.item("option");
  if (option) {
    if (Result<void> checked = check(request, *option, in_srun); !checked) {
      return checked;
    }
  }
  if (option && in_srun) {
    say_if_end_with_first_failure_is_missing(request, *option);
    warn_of_binding_of_another_step(request.environment);
  }
  const std::optional<std::string> prolog = request.item("task_prolog");
  if (prolog && in_srun) {
    return hand_to_task_prolog(*prolog, request);
  }
  if (prolog && option) {
    say_what_a_batch_script_needs(request.environment);
  }
  return {};
}

/// In srun all layers are looked at; in sbatch and salloc, whose environment need not be the step's, the option's own
/// text.
Result<void> Submit::check(const Request& request, const std::string& option, bool in_srun) {
  if (!in_srun) {
    return settings::check_ddp_option(option);
  }
  const Result<settings::LaunchSettings>& settings = settings_here(request, option);
  return settings ? Result<void>() : settings.error();
}

/// The settings as far as this host knows them. A site profile that does not exist on the submitting host is no error
/// yet: the nodes have the last word. One that the user may not read is an error: each node would say so. Each text is
/// loaded once: one that stays the same would be read and judged alike.
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

/// What this srun will be asked for, by its command line or by the job; nothing: without --ddp.
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

/// Slurm ends a step with its first failing task only where srun is told so in time, and a program that waits for a
/// rank that is gone waits for long. The user's own variable stands, and --kill-on-bad-exit on the command line wins
/// over both.
void Submit::announce_end_with_first_failure(const Request& request) {
  const std::optional<std::string> option = option_of_this_srun(request.environment);
  if (!option || option == kOff || is_told_about_first_failure(request.environment)) {
    return;
  }
  const Result<settings::LaunchSettings>& settings = settings_here(request, *option);
  if (settings && settings->kill_on_bad_exit) {
    plugin_.set(env::kKillOnBadExit, "1");
    ends_with_first_failure_ = true;
  }
}

/// Where --ddp was abbreviated or stands behind an option that is not known it was not seen before.
void Submit::say_if_end_with_first_failure_is_missing(const Request& request, const std::string& option) {
  if (is_told_about_first_failure(request.environment) || option_of_this_srun(request.environment)) {
    return;
  }
  const Result<settings::LaunchSettings>& settings = settings_here(request, option);
  if (settings && settings->kill_on_bad_exit && first("missing end")) {
    plugin_.note(
        "rollcall: note: --ddp: was not recognised in time to end the step with its first failing task; write it in "
        "full and as srun's first option, or add --kill-on-bad-exit");
  }
}

/// Gives the step's tasks values that no program can go on with, in place of those that the node's half sets (but not
/// of the user's own), marked as a rollcall's. Where that half does not run, since the node lacks the plugin or has one
/// of another Slurm, a program would find no world, train alone and end with 0 while the others wait for it.
void Submit::make_a_missing_node_half_an_error(const Environment& environment) {
  if (job::srun_option(command_line_, "--interactive")) {
    return;  // salloc's shell, whose own sruns will do so
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

/// Removes the array and the count of restarts of another job, which submitted this one, so that no task has them. Asks
/// slurmctld where the environment has any such variable.
void Submit::drop_values_of_another_job(const Environment& environment) {
  const Environment own = job::with_slurmctlds_word(job::own_environment(environment), job::Asking::ForItself);
  for (const auto& [name, value] : environment.variables()) {
    const bool of_job = name.starts_with("SLURM_ARRAY_") || name == env::kSlurmRestartCount;
    if (of_job && !own.get(name)) {
      plugin_.unset(name);
    }
  }
}

/// With host.template={nodeaddr} srun asks slurmctld once, when it has the step, in place of each node.
void Submit::say_whether_nodes_want_an_address(const Request& request) {
  const Result<settings::LaunchSettings>& settings = settings_here(request, *request.item("option"));
  const bool wanted = settings && settings->host_template == network::kNodeAddressTemplate;
  if (wanted && !request.item("task_prolog")) {
    plugin_.set(hook::kHeadAddress, hook::kWanted);
  } else if (request.environment.get(hook::kHeadAddress)) {
    plugin_.unset(hook::kHeadAddress);
  }
}

/// SLURM_CPU_BIND may be not the user's but what Slurm gave a task, of the step that this srun was called in or that
/// submitted the job. srun binds all tasks by it, to that one task's CPUs.
void Submit::warn_of_binding_of_another_step(const Environment& environment) {
  const auto value = [&](std::string_view name) { return environment.get(name).value_or(""); };
  const std::string bind = value("SLURM_CPU_BIND");
  // Slurm gives a task all four; who sets a binding of their own sets the first.
  const std::string tasks =
      value("SLURM_CPU_BIND_VERBOSE") + "," + value("SLURM_CPU_BIND_TYPE") + value("SLURM_CPU_BIND_LIST");
  const bool is_one_tasks = bind == tasks && bind.find("_cpu:") != bind.npos;
  if (is_one_tasks && !job::srun_option(command_line_, "--cpu-bind") && first("binding")) {
    plugin_.note(fmt::format(
        "rollcall: warning: SLURM_CPU_BIND: {}: is of a task of another step, which called srun or submitted this job, "
        "and srun binds all tasks to that one's CPUs; try unset ${{!SLURM_CPU_BIND@}} before srun",
        printable(bind)));
  }
}

// An installation without an administrator (`rollcall install --user`): no half of the plugin runs on the nodes, so a
// task prolog does its work. Such a line in plugstack.conf has `task_prolog=PATH`.

/// Names `program` as the step's task prolog if this srun asks for --ddp; after "init" is too late. The user's own
/// SLURM_TASK_PROLOG will be run by it.
void Submit::announce_task_prolog(const std::string& program, const Environment& environment) {
  plugin_.unset(env::kHandedOption);
  plugin_.unset(env::kUsersTaskProlog);
  if (!option_of_this_srun(environment)) {
    return;  // but not where it is off in the end: `--ddp --ddp=off` asks for it first
  }
  if (const std::string users = users_prolog(environment); !users.empty() && users != program) {
    plugin_.set(env::kUsersTaskProlog, users);
  }
  plugin_.set(env::kTaskProlog, program);
}

/// What the prolog is to do. Error: it will not run, since --task-prolog on the command line takes its place or --ddp
/// was abbreviated.
Result<void> Submit::hand_to_task_prolog(const std::string& program, const Request& request) {
  const std::optional<std::string> option = request.item("option");
  if (!option) {
    plugin_.unset(env::kHandedOption);
    return {};
  }
  if (users_prolog(request.environment) != program) {
    return fail("--ddp", "", "was not recognised in time", "writing it in full, as srun's first option");
  }
  if (job::srun_option(command_line_, "--task-prolog")) {
    return fail("--task-prolog", "",
                "takes the place of the task prolog that --ddp needs where only you installed rollcall",
                "SLURM_TASK_PROLOG=PROGRAM srun --ddp ..., which runs both");
  }
  plugin_.set(env::kHandedOption, *option);
  return {};
}

/// Inside the job Slurm goes back to the site's own configuration.
void Submit::say_what_a_batch_script_needs(const Environment& environment) {
  const std::optional<std::string> conf = environment.get("SLURM_CONF");
  const std::string& program = command_line_.front();
  if (conf && program.substr(program.rfind('/') + 1) == "sbatch" && first("batch script")) {
    plugin_.note(
        fmt::format("rollcall: note: --ddp: inside the job Slurm reads the site's configuration again; put the line "
                    "`export SLURM_CONF={}` into the script, before srun",
                    printable(*conf)));
  }
}

}  // namespace rollcall::hooks
