#include "spank_plugin/task.h"

#include <sys/types.h>
#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/printable.h"
#include "runtime/bootstrap/het_step.h"
#include "runtime/bootstrap/slurm.h"
#include "runtime/bootstrap/world.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/cpu_set.h"
#include "runtime/rendezvous/resolved_step.h"
#include "runtime/resolve/resolve.h"
#include "spank_plugin/failure.h"
#include "spank_plugin/launch.h"
#include "spank_plugin/spank_env.h"
#include "spank_plugin/step_layout.h"

namespace rollcall::spank {
namespace {

Result<void> check_user(spank_t spank) {
  uid_t job_user = 0;
  if (spank_get_item(spank, S_JOB_UID, &job_user) == ESPANK_SUCCESS && job_user == ::geteuid()) {
    return {};
  }
  return fail("--ddp", fmt::format("user {}", ::geteuid()), "the step would be observed as another user than the job's",
              "reporting it to your administrator", ExitCode::Internal);
}

void set(Environment& environment, std::string_view name, std::uint32_t value) {
  environment.set(std::string(name), std::to_string(value));
}

/// Before the tasks exist their ranks are unknown: those of this node's first task stand in. What is wanted of these
/// facts is alike for all tasks of the node.
Result<job::JobFacts> facts_of_first_task(spank_t spank, Environment environment) {
  std::uint32_t rank = 0;
  if (spank_get_item(spank, S_JOB_LOCAL_TO_GLOBAL_ID, std::uint32_t{0}, &rank) != ESPANK_SUCCESS) {
    rank = 0;
  }
  set(environment, env::kSlurmProcId, rank);
  set(environment, env::kSlurmLocalId, 0);
  const bool het = environment.get(env::kSlurmHetSize).has_value();
  set(environment, env::kSlurmNodeId, het ? 0 : item(spank, S_JOB_NODEID).value_or(0));
  environment.unset(env::kPmixRank);
  return bootstrap::facts_from_slurm(environment);
}

/// Whether neither the step's own variables nor those of its het job tell the order of nodes and rank 0's host.
bool only_controller_knows(const Environment& environment, const job::JobFacts& facts) {
  const bool told = facts.het ? bootstrap::het_layout(environment, facts).has_value() : true;
  return facts.num_nodes > 1 && (bootstrap::is_arbitrary(environment) || !told);
}

/// SPANK counts the nodes of each component of a het step from 0; its job id tells the components apart.
void place_in_het_step(spank_t spank, const job::StepLayout& layout, job::JobFacts& facts) {
  job::adopt_layout(layout, facts);
  const std::uint32_t offset = item(spank, S_JOB_ID).value_or(0) - facts.job_id.value_or(0);
  std::uint32_t first_node = 0;
  for (std::size_t i = 0; i < layout.component_offsets.size(); ++i) {
    const std::uint32_t node = first_node + item(spank, S_JOB_NODEID).value_or(0);
    first_node += layout.component_nodes[i];
    if (layout.component_offsets[i] == offset && node < first_node) {
      facts.node_rank = node;
      facts.this_host = layout.hosts[node];
      facts.local_world_size = layout.tasks_per_node[node];
    }
  }
}

bool own_name_resolves(job::JobFacts facts, const settings::Settings& settings, const Environment& user) {
  if (facts.head_host == facts.this_host) {
    return false;  // known already, and a failing look-up can take seconds
  }
  facts.head_host = facts.this_host;
  return any_head_name_resolves(rendezvous::observe_for(facts, settings, user));
}

void cross_check(spank_t spank, job::JobFacts& facts) {
  const std::optional<std::uint32_t> rank = item(spank, S_TASK_GLOBAL_ID);
  if (!facts.het && rank && *rank != facts.rank) {
    facts.warnings.push_back(
        fmt::format("SLURM_PROCID says rank {}, SPANK says {}: the former is used", facts.rank, *rank));
  }
}

/// From the facts of the step to those of this task's world.
Result<job::JobFacts> task_facts(spank_t spank, const Environment& task, const StepOnNode& step) {
  Result<job::JobFacts> facts = bootstrap::facts_from_slurm(task);
  if (!facts) {
    return facts;
  }
  facts->source = "spank";
  facts->step_gpus = step.gpus;
  cross_check(spank, *facts);
  if (step.layout) {
    job::adopt_layout(*step.layout, *facts);
    if (facts->head_known_to_all) {
      bootstrap::forget_that_head_was_unknown(*facts);
    }
  }
  if (const Result<void> chosen = bootstrap::choose_world(task, step.settings, *facts); !chosen) {
    return chosen.error();
  }
  return facts;
}

/// What observe_step() had to leave to the task: around the earlier hooks Slurm 24.11 holds a lock that its own
/// library's requests take, and ends slurmstepd.
Result<StepOnNode> with_layout(spank_t spank, StepOnNode step, const Environment& task) {
  if (!step.ask_controller) {
    return step;
  }
  const Result<job::JobFacts> of_step = bootstrap::facts_from_slurm(task);
  if (!of_step) {
    return of_step.error();
  }
  step.layout = layout_from_controller(task, *of_step);
  const Result<job::JobFacts> facts = task_facts(spank, task, step);
  if (!facts) {
    return facts.error();
  }
  step.network = rendezvous::observe_for(*facts, step.settings, task);
  step.own_name_resolves = any_head_name_resolves(step.network) || own_name_resolves(*facts, step.settings, task);
  step.folders = prepare_folders(*facts, step.settings, step.network, task);
  return step;
}

}  // namespace

bool any_head_name_resolves(const network::NetworkView& view) {
  return std::ranges::any_of(view.head_names, [](const auto& name) { return !name.addresses.empty(); });
}

Result<StepOnNode> observe_step(spank_t spank, const DdpOption& option, const std::optional<std::string>& site_file) {
  if (const Result<void> checked = check_user(spank); !checked) {
    return checked.error();
  }
  const Environment user = snapshot(spank);
  Result<settings::Settings> settings = load_settings(option, site_file, user);
  if (!settings) {
    return settings.error();
  }
  Result<job::JobFacts> facts = facts_of_first_task(spank, user);
  if (!facts) {
    return facts.error();
  }
  StepOnNode step{.settings = std::move(*settings), .gpus = user.get(env::kSlurmStepGpus).value_or("")};
  if (only_controller_knows(user, *facts)) {
    step.ask_controller = true;
    return step;
  }
  if (const auto layout = facts->het ? bootstrap::het_layout(user, *facts) : std::nullopt) {
    place_in_het_step(spank, *layout, *facts);
  }
  if (const Result<void> chosen = bootstrap::choose_world(user, step.settings, *facts); !chosen) {
    return chosen.error();
  }
  step.network = rendezvous::observe_for(*facts, step.settings, user);
  step.own_name_resolves = any_head_name_resolves(step.network) || own_name_resolves(*facts, step.settings, user);
  step.folders = prepare_folders(*facts, step.settings, step.network, user);
  return step;
}

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
  Result<resolve::EnvPatch> patch =
      resolve::resolve(*facts, step->settings, step->network, task, job::cpus_of_this_process());
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
