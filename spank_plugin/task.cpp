#include "spank_plugin/task.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/launchers/slurm.h"
#include "runtime/resolve/resolve.h"
#include "runtime/step/resolved_step.h"
#include "spank_plugin/spank_env.h"

namespace rollcall::spank {
namespace {

bool is_zero(const Environment& task, std::string_view name) { return task.get(name) == "0"; }

bool spares_rank_0(const Environment& task, const StepOnNode& step) {
  Environment first = task;
  for (const std::string_view name : {env::kSlurmProcId, env::kSlurmLocalId, env::kSlurmNodeId}) {
    first.set(std::string(name), "0");
  }
  first.unset(env::kPmixRank);
  const Result<job::JobFacts> facts = launchers::facts_from_slurm(first);
  return facts && resolve::resolve(*facts, step.settings, step.network, first, 1);
}

/// An interface that the site's profile names exists on all nodes: where it does not, the node is at fault. One that
/// the user named is missing everywhere.
bool is_fault_of_this_node(const Error& error, const StepOnNode& step) {
  const bool head_unknown_only_here = !any_head_name_resolves(step.network) && step.own_name_resolves;
  const auto from_a_file = [&](const settings::Setting& setting) {
    return setting.name == error.setting && step.settings.value(setting.name).origin.starts_with('/');
  };
  const bool interface_of_site =
      error.setting.starts_with("interface.") && std::ranges::any_of(step.settings.table(), from_a_file);
  return head_unknown_only_here || interface_of_site;
}

/// Whether the task with environment `task` is the one that tells the user about `error`. `step` is null where the step
/// could not be observed.
bool tells_the_user(const Error& error, const Environment& task, const StepOnNode* step) {
  if (is_zero(task, env::kSlurmProcId) || step == nullptr) {
    return is_zero(task, env::kSlurmProcId);
  }
  return (is_zero(task, env::kSlurmLocalId) && is_fault_of_this_node(error, *step)) ||
         (task.get(env::kSlurmProcId) == "1" && spares_rank_0(task, *step));
}

[[noreturn]] void end_task(const Error& error, const Environment& task, const StepOnNode* step) {
  if (tells_the_user(error, task, step)) {
    print_error(error);
  }
  ::_exit(to_int(error.exit_code));
}

}  // namespace

void print_error(const Error& error) { slurm_error("%s", error.message().c_str()); }

void set_up_task(spank_t spank, Result<StepOnNode> on_node) {
  const Environment task = snapshot(spank);
  const Result<StepOnNode> step = on_node ? with_layout(spank, *std::move(on_node), task) : std::move(on_node);
  if (!step) {
    end_task(step.error(), task, nullptr);
  }
  const Result<job::JobFacts> facts = task_facts(spank, task, *step);
  if (!facts) {
    end_task(facts.error(), task, &*step);
  }
  Result<resolve::EnvPatch> patch = step::resolve_here(*facts, step->settings, step->network, task);
  if (!patch) {
    end_task(patch.error(), task, &*step);
  }
  storage::leave_out(*patch, step->folders.refused);
  if (const Result<void> applied = apply(spank, *patch); !applied) {
    end_task(applied.error(), task, &*step);
  }
  std::vector<std::string> warnings = warnings_about(step->folders, *facts);
  if (facts->rank == 0) {
    warnings.insert(warnings.begin(), patch->warnings.begin(), patch->warnings.end());
  }
  for (const std::string& warning : warnings) {
    slurm_spank_log("rollcall: warning: %s", printable(warning).c_str());
  }
}

}  // namespace rollcall::spank
