#include "spank_plugin/step_on_node.h"

#include <fmt/format.h>
#include <slurm/slurm.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/node_list.h"
#include "runtime/launchers/slurm.h"
#include "runtime/resolve/caches.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"
#include "runtime/storage/purge_age.h"
#include "spank_plugin/spank_env.h"

// Weak: a Slurm that lacks one of these still loads the plugin.
#pragma weak slurm_job_step_layout_get
#pragma weak slurm_job_step_layout_free

namespace rollcall::spank {
namespace {

constexpr std::uint32_t kMostComponents = 1024;

using Layout = std::unique_ptr<slurm_step_layout_t, void (*)(slurm_step_layout_t*)>;

Layout ask(std::uint32_t job, std::uint32_t step) {
  slurm_step_id_t id{};
  id.job_id = job;
  id.step_id = step;
  id.step_het_comp = NO_VAL;
  return {slurm_job_step_layout_get(&id), slurm_job_step_layout_free};
}

bool has_rank_0(const slurm_step_layout_t& layout, std::uint32_t node) {
  const auto* const first = layout.tids[node];
  return std::find(first, first + layout.tasks[node], 0U) != first + layout.tasks[node];
}

/// Adds one component's nodes (the only one's of an ordinary step); ranks count from 0 in each.
bool append(std::uint32_t offset, const slurm_step_layout_t& layout, job::StepLayout& whole) {
  const Result<std::vector<std::string>> hosts = job::expand_node_list(layout.node_list);
  if (!hosts || hosts->size() != layout.node_cnt) {
    return false;
  }
  for (std::uint32_t node = 0; node < layout.node_cnt; ++node) {
    whole.hosts.push_back((*hosts)[node]);
    whole.tasks_per_node.push_back(layout.tasks[node]);
    if (whole.component_nodes.empty() && has_rank_0(layout, node)) {
      whole.head_host = (*hosts)[node];
    }
  }
  whole.component_nodes.push_back(layout.node_cnt);
  whole.component_offsets.push_back(offset);
  return true;
}

/// The step's layout as slurmctld knows it: one request to it a component, 1-9 ms. Needed only where the variables do
/// not tell the node of rank 0 or the order of nodes: under --distribution=arbitrary, and in a het step of `srun A :
/// B`. For task_init only: earlier it ends slurmstepd in Slurm 24.11, which holds a lock there that its own library's
/// requests take. Nothing where slurmctld does not answer or this Slurm does not offer the question.
std::optional<job::StepLayout> layout_from_controller(const Environment& step, const job::JobFacts& facts) {
  if (!facts.job_id || !facts.step_id || slurm_job_step_layout_get == nullptr ||
      slurm_job_step_layout_free == nullptr) {
    return std::nullopt;
  }
  const auto size = parse_integer<std::uint32_t>(step.get(env::kSlurmHetSize).value_or(""));
  const std::uint32_t components = facts.het ? std::min(size.value_or(1), kMostComponents) : 1;
  job::StepLayout whole;
  // Each component is a job of its own for slurmctld, numbered from the first one's; not every one is in this step.
  for (std::uint32_t index = 0; index < components; ++index) {
    const Layout layout = ask(*facts.job_id + index, *facts.step_id);
    if (layout && !append(index, *layout, whole)) {
      return std::nullopt;
    }
  }
  if (!facts.het) {
    whole.component_nodes.clear();
    whole.component_offsets.clear();
  }
  return whole.hosts.empty() ? std::nullopt : std::optional(std::move(whole));
}

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
  return launchers::facts_from_slurm(environment);
}

/// Whether neither the step's own variables nor those of its het job tell the order of nodes and rank 0's host.
bool only_controller_knows(const Environment& environment, const job::JobFacts& facts) {
  const bool told = facts.het ? launchers::het_layout(environment, facts).has_value() : true;
  return facts.num_nodes > 1 && (launchers::is_arbitrary(environment) || !told);
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
  return any_head_name_resolves(step::observe_network(facts, settings, user));
}

void cross_check(spank_t spank, job::JobFacts& facts) {
  const std::optional<std::uint32_t> rank = item(spank, S_TASK_GLOBAL_ID);
  if (!facts.het && rank && *rank != facts.rank) {
    facts.warnings.push_back(
        fmt::format("SLURM_PROCID says rank {}, SPANK says {}: the former is used", facts.rank, *rank));
  }
}

/// Makes the caches' folders and looks for files that the site will soon delete, as the job's user. `first` is this
/// node's first task. Never fails: a cache that cannot be made is left alone.
FoldersOnNode prepare_folders(const job::JobFacts& first, const settings::Settings& settings,
                              const network::NetworkView& network, const Environment& user) {
  FoldersOnNode folders;
  // The patch of the first task names the same caches as those of the others; its other parts are not wanted here.
  if (resolve::caches_configured(settings)) {
    if (const auto patch = resolve::resolve(first, settings, network, user, 1)) {
      folders.refused = storage::make_cache_folders(*patch);
    }
  }
  if (first.node_rank == 0) {
    folders.purge_warning = storage::purge_warning(settings, user, storage::kAtLaunch);
  }
  return folders;
}

/// The network of the step with these facts, and what follows from it on this node.
void observe_on_node(const job::JobFacts& facts, const Environment& user, StepOnNode& step) {
  step.network = step::observe_network(facts, step.settings, user);
  step.own_name_resolves = any_head_name_resolves(step.network) || own_name_resolves(facts, step.settings, user);
  step.folders = prepare_folders(facts, step.settings, step.network, user);
}

}  // namespace

bool any_head_name_resolves(const network::NetworkView& view) {
  return std::ranges::any_of(view.head_names, [](const auto& name) { return !name.addresses.empty(); });
}

Result<job::JobFacts> task_facts(spank_t spank, const Environment& task, const StepOnNode& step) {
  Result<job::JobFacts> facts = launchers::facts_from_slurm(task);
  if (!facts) {
    return facts;
  }
  facts->source = "spank";
  facts->step_gpus = step.gpus;
  cross_check(spank, *facts);
  if (step.layout) {
    job::adopt_layout(*step.layout, *facts);
    if (facts->head_known_to_all) {
      launchers::forget_that_head_was_unknown(*facts);
    }
  }
  if (const Result<void> chosen = step::choose_world(task, step.settings, *facts); !chosen) {
    return chosen.error();
  }
  return facts;
}

Result<StepOnNode> observe_step(spank_t spank, const DdpOption& option, const std::optional<std::string>& site_file) {
  if (const Result<void> checked = check_user(spank); !checked) {
    return checked.error();
  }
  const Environment user = snapshot(spank);
  Result<settings::Settings> settings =
      settings::load_launch_settings(user, {.site_file = site_file, .ddp = option.key_values});
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
  if (const auto layout = facts->het ? launchers::het_layout(user, *facts) : std::nullopt) {
    place_in_het_step(spank, *layout, *facts);
  }
  if (const Result<void> chosen = step::choose_world(user, step.settings, *facts); !chosen) {
    return chosen.error();
  }
  observe_on_node(*facts, user, step);
  return step;
}

Result<StepOnNode> with_layout(spank_t spank, StepOnNode step, const Environment& task) {
  if (!step.ask_controller) {
    return step;
  }
  const Result<job::JobFacts> of_step = launchers::facts_from_slurm(task);
  if (!of_step) {
    return of_step.error();
  }
  step.layout = layout_from_controller(task, *of_step);
  const Result<job::JobFacts> facts = task_facts(spank, task, step);
  if (!facts) {
    return facts.error();
  }
  observe_on_node(*facts, task, step);
  return step;
}

std::vector<std::string> warnings_about(const FoldersOnNode& folders, const job::JobFacts& task) {
  std::vector<std::string> warnings;
  for (const storage::RefusedCache& cache : folders.refused) {
    if (task.rank == 0 || (task.local_rank == 0 && cache.only_here)) {
      warnings.push_back(cache.warning);
    }
  }
  if (task.rank == 0 && folders.purge_warning) {
    warnings.push_back(*folders.purge_warning);
  }
  return warnings;
}

}  // namespace rollcall::spank
