#include "spank_plugin/task.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <utility>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/base/time_limit.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/marker.h"
#include "runtime/job/slurm_files.h"
#include "runtime/launchers/slurm.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/step/let_others_tell.h"
#include "runtime/step/resolved_step.h"
#include "runtime/storage/folders.h"
#include "spank_plugin/spank_view.h"

namespace rollcall::spank {
namespace {

/// For a line on the way to a file or a reader that does not take it.
constexpr std::chrono::seconds kTelling{2};

bool is_zero(const Environment& task, std::string_view name) { return task.get(name) == "0"; }

/// The name of this process while rollcall works in it: without cgroups Slurm takes whatever is called as slurmstepd is
/// for slurmstepd (proctrack/linuxproc), and its SIGKILL would pass by a task that hangs.
class OwnName {
 public:
  OwnName() {
    ::prctl(PR_GET_NAME, before_.data());
    ::prctl(PR_SET_NAME, "rollcall-task");
  }
  ~OwnName() { ::prctl(PR_SET_NAME, before_.data()); }
  OwnName(const OwnName&) = delete;
  OwnName& operator=(const OwnName&) = delete;

 private:
  std::array<char, 16> before_{};
};

/// While it lives, SIGTERM ends this process at once and without a word, with exit code 1: below the code of every
/// cause, so that a step that Slurm ends for its first failing task has that task's exit code. The signal's own way,
/// 143 for a shell and for srun, would be above all of them. exec(3) ends it, too. Not for a process that has something
/// to save. One at a time; the constructor changes the whole process.
class EndByTerm {
 public:
  EndByTerm() {
    struct sigaction action {};
    action.sa_handler = [](int) { ::_exit(1); };
    ::sigaction(SIGTERM, &action, &before_);
  }
  ~EndByTerm() { ::sigaction(SIGTERM, &before_, nullptr); }
  EndByTerm(const EndByTerm&) = delete;
  EndByTerm& operator=(const EndByTerm&) = delete;

 private:
  struct sigaction before_ {};
};

/// One task on its way to its environment. What it found out so far tells whose an error is.
class TaskSetUp {
 public:
  TaskSetUp(spank_t spank, const DdpOption& option, const settings::PluginProfile& site, SharedByTasks& shared)
      : spank_(spank), option_(option), site_(site), shared_(shared), task_(snapshot(spank)) {}

  void run() {
    if (const Result<void> done = set_up(); !done) {
      if (tells_the_user(done.error())) {
        print_error(done.error());
      } else {
        limit_.set_patience(std::chrono::hours(1));  // nothing is done any more that could take too long
        step::let_others_tell();
      }
      ::_exit(to_int(done.error().exit_code));
    }
  }

 private:
  Result<void> set_up() {
    if (Result<void> checked = check_user(); !checked) {
      return checked;
    }
    if (Result<void> checked = check_option_is_known(); !checked) {
      return checked;
    }
    limit_.doing("asks who the user is");
    task_ = with_home_and_user(std::move(task_));
    limit_.doing("reads the settings");
    if (Result<void> checked = check_site(); !checked) {
      return checked;
    }
    Result<settings::Settings> settings =
        settings::load_launch_settings(task_, {.site = site_, .ddp = option_.key_values});
    if (!settings) {
      return settings.error();
    }
    settings_ = *std::move(settings);
    limit_.set_patience(TimeLimit::Seconds(settings_->number(settings::kTaskTimeout)));
    limit_.doing("asks Slurm for the step's layout");
    Result<job::JobFacts> facts = task_facts(spank_, task_, *settings_);
    if (!facts) {
      return facts.error();
    }
    facts->step_gpus = shared_.gpus;
    facts->sees_accelerator = sees_accelerator();
    facts_ = *std::move(facts);
    network_ = observe(*facts_);
    Result<resolve::EnvPatch> patch = step::resolve_here(*facts_, *settings_, *network_, task_);
    if (!patch) {
      return patch.error();
    }
    const Result<void> checked = check_layout_is_known(*patch);
    return checked ? give(*patch) : checked;
  }

  /// The plugin, and plugstack.conf as far as the step's SLURM_CONF leads to it. The profile is judged as it is read.
  Result<void> check_site() {
    const Result<void> checked = settings::check_plugin(own_file(), site_.owners);
    std::optional<Error> refusal = checked ? job::profile_of_plugin(task_).refusal : checked.error();
    if (!refusal) {
      return {};
    }
    refusal->of_this_node = true;
    return *std::move(refusal);
  }

  /// slurmctld answers each task by itself: one may be told what another is not.
  Result<void> check_layout_is_known(const resolve::EnvPatch& patch) {
    if (step::check_head_is_known(*facts_, patch)) {
      return {};
    }
    Error error = fail("MASTER_ADDR", "",
                       fmt::format("{} was not told where rank 0 is: slurmctld did not answer, or its answer does not "
                                   "fit the step",
                                   facts_->this_host),
                       "again, or exporting MASTER_ADDR", ExitCode::Unavailable);
    error.of_this_node = true;
    return error;
  }

  /// Where the step was started this very text was taken, by another build of the plugin then.
  Result<void> check_option_is_known() {
    const Result<void> checked = settings::check_ddp_option(option_.key_values);
    if (checked) {
      return {};
    }
    Error error = checked.error();
    error.reason += fmt::format(" on {}, whose plugin is of another version than the one that took it",
                                task_.get(env::kSlurmNodeName).value_or("this node"));
    error.action = "one version of rollcall on all nodes";
    error.exit_code = ExitCode::Mismatch;
    error.of_this_node = true;
    return error;
  }

  Result<void> check_user() {
    uid_t job_user = 0;
    if (spank_get_item(spank_, S_JOB_UID, &job_user) == ESPANK_SUCCESS && job_user == ::geteuid()) {
      return {};
    }
    return fail("--ddp", fmt::format("user {}", ::geteuid()), "the task would be set up as another user than the job's",
                "reporting it to your administrator", ExitCode::Internal);
  }

  network::ResolvedName look_up(const std::string& name) {
    limit_.doing("looks up " + name);
    const network::LookUp ask = [](const std::string& one) { return network::resolve_name_by(node_address, one); };
    return shared_.look_ups ? shared_.look_ups->resolve(name, ask) : ask(name);
  }

  network::NetworkView observe(const job::JobFacts& facts) {
    return step::observe_network(facts, *settings_, task_, [this](const std::string& name) { return look_up(name); });
  }

  /// Makes the caches' folders, sets the variables, tells the warnings. A cache that cannot be made is left alone.
  Result<void> give(resolve::EnvPatch& patch) {
    limit_.doing("makes the folders of caches and looks for old files");
    if (Result<void> prepared = storage::prepare_folders(*facts_, patch, *settings_, task_); !prepared) {
      return prepared;
    }
    if (Result<void> applied = apply(spank_, patch); !applied) {
      return applied;
    }
    for (const std::string& warning : step::warnings_to_tell(*facts_, patch)) {
      slurm_spank_log("rollcall: warning: %s", printable(warning).c_str());
    }
    return {};
  }

  /// Once on this node, whoever of its tasks comes first.
  bool speaks_for_node() {
    return shared_.look_ups ? shared_.look_ups->claim_to_speak() : is_zero(task_, env::kSlurmLocalId);
  }

  bool head_is_unknown_only_here() {
    return network_ && facts_ &&
           step::head_is_unknown_only_here(*facts_, *settings_, *network_, task_,
                                           [this](const std::string& name) { return look_up(name); });
  }

  bool spares_rank_0() {
    Environment first = task_;
    for (const std::string_view name : {env::kSlurmProcId, env::kSlurmLocalId, env::kSlurmNodeId}) {
      first.set(std::string(name), "0");
    }
    first.unset(env::kPmixRank);
    const Result<job::JobFacts> facts = launchers::facts_from_slurm(first);
    return settings_ && network_ && facts && resolve::resolve(*facts, *settings_, *network_, first, 1);
  }

  bool tells_the_user(const Error& error) {
    if (error.of_this_node || head_is_unknown_only_here()) {
      return speaks_for_node();
    }
    return is_zero(task_, env::kSlurmProcId) || (task_.get(env::kSlurmProcId) == "1" && spares_rank_0());
  }

  /// In the watching thread: the task itself hangs, perhaps with a lock of Slurm's log. What it writes to may hang as
  /// well.
  [[noreturn]] void give_up(const std::string& doing, TimeLimit::Seconds patience) {
    const Error error = settings::out_of_time(task_.get(env::kSlurmNodeName).value_or("this node"), doing, patience);
    if (speaks_for_node()) {
      const std::string line = error.message() + "\n";
      (void)run_within(kTelling, [line] { return ::write(STDERR_FILENO, line.data(), line.size()); });
    }
    ::_exit(to_int(error.exit_code));
  }

  const OwnName own_name_{};
  const EndByTerm end_by_term_{};
  spank_t spank_;
  const DdpOption& option_;
  const settings::PluginProfile& site_;
  SharedByTasks& shared_;
  Environment task_;  ///< as rollcall sees it
  std::optional<settings::Settings> settings_{};
  std::optional<job::JobFacts> facts_{};
  std::optional<network::NetworkView> network_{};
  TimeLimit limit_{settings::default_task_timeout(),
                   [this](const std::string& doing, TimeLimit::Seconds patience) { give_up(doing, patience); }};
};

}  // namespace

void print_error(const Error& error) { slurm_error("%s", error.message().c_str()); }

SharedByTasks share_among_tasks(spank_t spank) {
  return {.look_ups = network::SharedLookUps::make(),
          .gpus = get_variable(spank, std::string(env::kSlurmStepGpus)).value_or("")};
}

void set_up_task(spank_t spank, const DdpOption& option, const settings::PluginProfile& site, SharedByTasks& shared) {
  TaskSetUp(spank, option, site, shared).run();
}

void end_task(spank_t spank, const Error& error) {
  if (get_variable(spank, std::string(env::kSlurmProcId)) == "0") {
    print_error(error);
  }
  ::_exit(to_int(error.exit_code));
}

void drop_values_of_other_steps(spank_t spank) {
  if (!get_variable(spank, std::string(env::kMarker))) {
    return;
  }
  for (const std::string& name : job::marked_values(snapshot(spank))) {
    spank_unsetenv(spank, name.c_str());
  }
}

}  // namespace rollcall::spank
