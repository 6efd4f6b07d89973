#include "runtime/hooks/node_task.h"

#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/base/time_limit.h"
#include "runtime/contract/deadlines.h"
#include "runtime/contract/env_vars.h"
#include "runtime/contract/hook_wire.h"
#include "runtime/hooks/plugin_site.h"
#include "runtime/hooks/slurmctld.h"
#include "runtime/hooks/task_set_up.h"
#include "runtime/job/marker.h"
#include "runtime/job/own_environment.h"
#include "runtime/job/slurm_files.h"
#include "runtime/launchers/slurm.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"

namespace rollcall::hooks {
namespace {

/// The time limit for writing a line to a file or a reader that may not accept it.
constexpr std::chrono::seconds kReporting{2};
/// The plugin waits this many seconds longer, so that this program reports first.
constexpr double kPluginsPatience = 10;
constexpr std::chrono::hours kForEver{1};

bool is_zero(const Environment& task, std::string_view name) { return task.get(name) == "0"; }

/// Returns the environment that the task will have, without the variables of other jobs and steps.
Environment environment_of(const Request& request) {
  job::StepEvidence evidence{.given = request.environment};  // SPANK's S_SLURM_RESTART_COUNT is 0 in all steps
  const auto number = parse_integer<std::uint32_t>(request.item("job").value_or(""));
  if (const auto step = request.item("step"); number && step) {
    evidence.step = job::StepOfProcess{*number, *step};
  }
  return job::without_inherited_variables(request.environment, evidence);
}

class NodeTask : public TaskSetUp {
 public:
  NodeTask(PluginLink& plugin, const Request& request, std::optional<network::SharedLookUps>& shared, TimeLimit& limit)
      : TaskSetUp(environment_of(request), limit), plugin_(plugin), request_(request), shared_(shared) {}

  Result<void> set_up() {
    const std::string option = request_.item("option").value_or("");
    RETURN_IF_ERROR(check_user());
    RETURN_IF_ERROR(check_option_is_known(option));
    ASSIGN_OR_RETURN(const resolve::EnvPatch patch, run({.site = judged_site(), .ddp = option}));
    give(patch);
    return {};
  }

  bool reports(const Error& error) {
    if (error.of_this_node || head_is_unknown_only_here()) {
      return reports_for_node();
    }
    return is_zero(task(), env::kSlurmProcId) || (task().get(env::kSlurmProcId) == "1" && rank_0_agrees());
  }

  /// Returns true in the first task of this node that calls it.
  bool reports_for_node() { return shared_ ? shared_->claim_report() : is_zero(task(), env::kSlurmLocalId); }

 private:
  Result<void> check_user() {
    if (parse_integer<uid_t>(request_.item("user").value_or("")) == ::geteuid()) {
      return {};
    }
    return fail("--ddp", fmt::format("user {}", ::geteuid()), "runs this task, who is not the job's user",
                "reporting it to your administrator", ErrorKind::Internal);
  }

  /// Checks the option again. srun accepted the same text, so that an error means another version of rollcall.
  Result<void> check_option_is_known(const std::string& option) {
    const Result<void> checked = settings::check_ddp_option(option);
    if (checked) {
      return {};
    }
    Error error = checked.error();
    error.reason += fmt::format(" on {}, whose rollcall is of another version than srun's",
                                task().get(env::kSlurmNodeName).value_or("this node"));
    error.action = "installing one version of rollcall on all nodes";
    error.kind = ErrorKind::Mismatch;
    error.of_this_node = true;
    return error;
  }

  /// Checks who can change the plugin, and plugstack.conf as far as the step's SLURM_CONF leads to it. The profile is
  /// checked when it is read.
  settings::PluginProfile judged_site() const {
    settings::PluginProfile site = site_of(request_);
    const Result<void> checked = settings::check_plugin(request_.item("plugin").value_or(""), site.owners);
    std::optional<Error> refusal =
        checked ? job::profile_of_plugin(with_home_and_user(task())).refusal : checked.error();
    if (refusal && !site.refusal) {
      refusal->of_this_node = true;
      site.refusal = std::move(refusal);
    }
    return site;
  }

  Result<job::JobFacts> find_facts(const settings::LaunchSettings& settings) override {
    plugin_.set_patience(settings.task_timeout.count() + kPluginsPatience);
    Result<job::JobFacts> facts = task_facts(plugin_, request_, task(), settings);
    if (facts) {
      facts->step_gpus = request_.item("gpus").value_or("");
    }
    return facts;
  }

  network::ResolvedName ask_for(const std::string& name) override {
    const network::LookUp ask = [this](const std::string& one) {
      return network::resolve_name_by([this](const std::string& node) { return node_address(plugin_, request_, node); },
                                      one);
    };
    return shared_ ? shared_->resolve(name, ask) : ask(name);
  }

  /// slurmctld may answer one task and not another, so that this is an error of one node.
  Error head_unknown(Error) override {
    Error error = fail("MASTER_ADDR", "",
                       fmt::format("{} does not know the node of rank 0: slurmctld did not answer, or its answer does "
                                   "not fit the step",
                                   facts()->this_host),
                       "exporting MASTER_ADDR, or starting the step again", ErrorKind::Unavailable);
    error.of_this_node = true;
    return error;
  }

  void give(const resolve::EnvPatch& patch) {
    if (request_.environment.get(hook::kHeadAddress)) {
      plugin_.unset(hook::kHeadAddress);
    }
    for (const resolve::EnvChange& change : patch.changes) {
      if (change.action == resolve::Action::Set) {
        plugin_.set(change.name, change.value);
      } else if (change.action == resolve::Action::Unset) {
        plugin_.unset(change.name);
      }
    }
    for (const std::string& warning : step::warnings_to_report(*facts(), patch)) {
      plugin_.note(fmt::format("rollcall: warning: {}", printable(warning)));
    }
  }

  bool head_is_unknown_only_here() {
    return network() && facts() &&
           step::head_is_unknown_only_here(*facts(), *settings(), *network(), task(),
                                           [this](const std::string& name) { return look_up(name); });
  }

  bool rank_0_agrees() const {
    Environment first = task();
    for (const std::string_view name : {env::kSlurmProcId, env::kSlurmLocalId, env::kSlurmNodeId}) {
      first.set(std::string(name), "0");
    }
    first.unset(env::kPmixRank);
    const Result<job::JobFacts> facts = launchers::facts_from_slurm(first);
    return settings() && network() && facts && resolve::resolve(*facts, *settings(), *network(), first, 1);
  }

  PluginLink& plugin_;
  const Request& request_;
  std::optional<network::SharedLookUps>& shared_;
};

/// Ends the task from the watchdog's thread. The task itself hangs, perhaps with a lock of Slurm's log, and the plugin
/// may wait for slurmctld. Standard error may hang as well.
[[noreturn]] void give_up(const Error& error, bool reports) {
  if (reports) {
    const std::string line = error.message() + "\n";
    (void)run_with_timeout(kReporting, [line] { return ::write(STDERR_FILENO, line.data(), line.size()); });
  }
  ::kill(::getppid(), SIGALRM);  // the plugin ends the task, and with it this process
  ::_exit(to_int(error.exit_code()));
}

}  // namespace

ExitCode serve_task(PluginLink& plugin, const Request& request, std::optional<network::SharedLookUps>& shared) {
  if (!request.item("option")) {
    for (const std::string& name : job::marked_values(environment_of(request))) {
      plugin.unset(name);
    }
    return ExitCode::Success;
  }
  const std::string host = request.environment.get(env::kSlurmNodeName).value_or("this node");
  const bool first_here = is_zero(request.environment, env::kSlurmLocalId);
  TimeLimit limit(settings::default_task_timeout(), [&](const std::string& doing, TimeLimit::Seconds patience) {
    give_up(settings::out_of_time(host, doing, patience), shared ? shared->claim_report() : first_here);
  });
  NodeTask task(plugin, request, shared, limit);
  const Result<void> done = task.set_up();
  if (done) {
    return ExitCode::Success;
  }
  if (task.reports(done.error())) {
    plugin.report(done.error());
  } else {
    limit.set_patience(kForEver);  // no more work that could hang
    plugin.set_patience(std::chrono::duration<double>(kForEver).count());
    std::this_thread::sleep_for(deadline::kOtherTaskReports);
  }
  return done.error().exit_code();
}

}  // namespace rollcall::hooks
