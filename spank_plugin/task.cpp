#include "spank_plugin/task.h"

#include <sys/types.h>
#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>

#include "runtime/bootstrap/slurm.h"
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
  set(environment, env::kSlurmNodeId, item(spank, S_JOB_NODEID).value_or(0));
  environment.unset(env::kPmixRank);
  return bootstrap::facts_from_slurm(environment);
}

bool own_name_resolves(job::JobFacts facts, const settings::Settings& settings, const Environment& user) {
  if (facts.head_host == facts.this_host) {
    return false;  // known already, and a failing look-up can take seconds
  }
  facts.head_host = facts.this_host;
  return any_head_name_resolves(rendezvous::observe_for(facts, settings, user));
}

void cross_check(spank_t spank, const Environment& task, job::JobFacts& facts) {
  const std::optional<std::uint32_t> rank = item(spank, S_TASK_GLOBAL_ID);
  if (!task.get("SLURM_HET_SIZE") && rank && *rank != facts.rank) {
    facts.warnings.push_back(
        fmt::format("SLURM_PROCID says rank {}, SPANK says {}: the former is used", facts.rank, *rank));
  }
}

Result<job::JobFacts> task_facts(spank_t spank, const Environment& task, const StepOnNode& step) {
  Result<job::JobFacts> facts = bootstrap::facts_from_slurm(task);
  if (facts) {
    facts->source = "spank";
    if (facts->head_host.empty() && !step.head_host.empty()) {
      facts->head_host = step.head_host;
      facts->warnings.clear();  // they said that the head is unknown
    }
    cross_check(spank, task, *facts);
  }
  return facts;
}

/// Under --distribution=arbitrary only slurmctld knows where rank 0 is. The task asks it: around the earlier hooks
/// Slurm 24.11 holds a lock that its own library's requests take, and ends slurmstepd.
Result<StepOnNode> with_known_head(const StepOnNode& on_node, const Environment& task) {
  StepOnNode step = on_node;
  if (!step.head_host.empty() || task.get(env::kSlurmDistribution) != "arbitrary") {
    return step;
  }
  Result<job::JobFacts> facts = bootstrap::facts_from_slurm(task);
  if (!facts) {
    return facts.error();
  }
  if (facts->num_nodes > 1) {
    facts->head_host = head_host_from_layout(task).value_or("");
    step.network = rendezvous::observe_for(*facts, step.settings, task);
    step.own_name_resolves = any_head_name_resolves(step.network) || own_name_resolves(*facts, step.settings, task);
    step.head_host = facts->head_host;
  }
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
  const Result<job::JobFacts> facts = facts_of_first_task(spank, user);
  if (!facts) {
    return facts.error();
  }
  network::NetworkView view = rendezvous::observe_for(*facts, *settings, user);
  const bool own_resolves = any_head_name_resolves(view) || own_name_resolves(*facts, *settings, user);
  return StepOnNode{std::move(*settings), std::move(view), facts->head_host, own_resolves};
}

void set_up_task(spank_t spank, const Result<StepOnNode>& on_node) {
  const Environment task = snapshot(spank);
  const Result<StepOnNode> step = on_node ? with_known_head(*on_node, task) : on_node;
  if (!step) {
    end_task(step.error(), task, nullptr);
  }
  const Result<job::JobFacts> facts = task_facts(spank, task, *step);
  if (!facts) {
    end_task(facts.error(), task, &*step);
  }
  const Result<resolve::EnvPatch> patch =
      resolve::resolve(*facts, step->settings, step->network, task, job::cpus_of_this_process());
  if (!patch) {
    end_task(patch.error(), task, &*step);
  }
  if (const Result<void> applied = apply(spank, *patch); !applied) {
    end_task(applied.error(), task, &*step);
  }
  if (facts->rank == 0) {
    for (const std::string& warning : patch->warnings) {
      slurm_spank_log("rollcall: warning: %s", warning.c_str());
    }
  }
}

}  // namespace rollcall::spank
