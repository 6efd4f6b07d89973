#include "spank_plugin/spank_view.h"

#include <fmt/format.h>
#include <slurm/slurm.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/node_list.h"
#include "runtime/job/own_environment.h"
#include "runtime/launchers/slurm.h"
#include "runtime/step/resolved_step.h"

// Weak: a Slurm that lacks one of these still loads the plugin.
#pragma weak slurm_job_step_layout_get
#pragma weak slurm_job_step_layout_free
#pragma weak slurm_load_node_single
#pragma weak slurm_free_node_info_msg

namespace rollcall::spank {
namespace {

constexpr int kFirstGuess = 256;
constexpr int kLongest = 1 << 22;  // beyond the kernel's own limit of one variable (128 KiB)

constexpr std::array kTaskVariables{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURMD_NODENAME",
                                    "PMIX_RANK",    "PMI_RANK",      "SLURM_GTIDS"};

}  // namespace

std::optional<std::string> get_variable(spank_t spank, const std::string& name) {
  for (int size = kFirstGuess; size <= kLongest; size *= 4) {
    std::string buffer(static_cast<std::size_t>(size), '\0');
    const int status = spank_getenv(spank, name.c_str(), buffer.data(), size);
    if (status == ESPANK_SUCCESS) {
      buffer.resize(buffer.find('\0'));
      return buffer;
    }
    if (status != ESPANK_NOSPACE) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

Environment snapshot(spank_t spank) {
  char** entries = nullptr;
  if (spank_get_item(spank, S_JOB_ENV, &entries) != ESPANK_SUCCESS) {
    entries = nullptr;
  }
  Environment environment = Environment::from_entries(entries);
  for (const char* name : kTaskVariables) {
    if (std::optional<std::string> value = get_variable(spank, name)) {
      environment.set(name, std::move(*value));
    }
  }
  job::Witnesses witnesses;  // not S_SLURM_RESTART_COUNT, which is 0 in all steps
  if (const auto job = item(spank, S_JOB_ID), step = item(spank, S_JOB_STEPID); job && step) {
    witnesses.step = job::StepOfProcess{*job, std::to_string(*step)};
  }
  return job::without_values_of_others(std::move(environment), witnesses);
}

Result<void> apply(spank_t spank, const resolve::EnvPatch& patch) {
  for (const resolve::EnvChange& change : patch.changes) {
    int status = ESPANK_SUCCESS;
    if (change.action == resolve::Action::Set) {
      status = spank_setenv(spank, change.name.c_str(), change.value.c_str(), 1);
    } else if (change.action == resolve::Action::Unset) {
      status = spank_unsetenv(spank, change.name.c_str());
    }
    if (status != ESPANK_SUCCESS) {
      return fail(change.name, change.value,
                  std::string("Slurm refused it: ") + spank_strerror(static_cast<spank_err_t>(status)),
                  "reporting it to your administrator", ExitCode::Internal);
    }
  }
  return {};
}

std::optional<std::uint32_t> item(spank_t spank, spank_item_t name) {
  std::uint32_t value = 0;
  return spank_get_item(spank, name, &value) == ESPANK_SUCCESS ? std::optional(value) : std::nullopt;
}

bool is_srun_step(spank_t spank) {
  const std::optional<std::uint32_t> step = item(spank, S_JOB_STEPID);
  return step && *step < SLURM_MAX_NORMAL_STEP_ID;
}

namespace {

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

/// The components that may hold nodes of this step, first and one beyond the last. SLURM_HET_SIZE is the user's to set;
/// SPANK's count of nodes, which is that of one component, is not: where it is the whole step's there is no other.
std::pair<std::uint32_t, std::uint32_t> components(spank_t spank, const Environment& task, const job::JobFacts& facts) {
  const std::uint32_t own = item(spank, S_JOB_ID).value_or(*facts.job_id) - *facts.job_id;
  if (item(spank, S_JOB_NNODES) == facts.num_nodes && own < launchers::kMostComponents) {
    return {own, own + 1};
  }
  const auto size = parse_integer<std::uint32_t>(task.get(env::kSlurmHetSize).value_or(""));
  return {0, facts.het ? std::min(size.value_or(1), launchers::kMostComponents) : 1};
}

/// The step's layout as slurmctld knows it. Nothing where it does not answer or this Slurm does not offer the question.
std::optional<job::StepLayout> layout_from_controller(spank_t spank, const Environment& task,
                                                      const job::JobFacts& facts) {
  if (!facts.job_id || !facts.step_id || slurm_job_step_layout_get == nullptr ||
      slurm_job_step_layout_free == nullptr) {
    return std::nullopt;
  }
  const auto [first, end] = components(spank, task, facts);
  job::StepLayout whole;
  // Each component is a job of its own for slurmctld, numbered from the first one's; not every one is in this step.
  for (std::uint32_t index = first; index < end && whole.hosts.size() < facts.num_nodes; ++index) {
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

/// Whether neither the step's own variables nor those of its het job tell the order of nodes and rank 0's host.
bool only_controller_knows(const Environment& environment, const job::JobFacts& facts) {
  const bool told = facts.het ? launchers::het_layout(environment, facts).has_value() : true;
  return facts.num_nodes > 1 && (launchers::is_arbitrary(environment) || !told);
}

void cross_check(spank_t spank, job::JobFacts& facts) {
  const std::optional<std::uint32_t> rank = item(spank, S_TASK_GLOBAL_ID);
  if (!facts.het && rank && *rank != facts.rank) {
    facts.warnings.push_back(
        fmt::format("SLURM_PROCID says rank {}, SPANK says {}: the former is used", facts.rank, *rank));
  }
}

}  // namespace

Result<job::JobFacts> task_facts(spank_t spank, const Environment& task, const settings::Settings& settings) {
  Result<job::JobFacts> facts = launchers::facts_from_slurm(task);
  if (!facts) {
    return facts;
  }
  facts->source = "spank";
  cross_check(spank, *facts);
  if (only_controller_knows(task, *facts)) {
    if (const auto layout = layout_from_controller(spank, task, *facts)) {
      job::adopt_layout(*layout, *facts);
      if (facts->head_known_to_all) {
        launchers::forget_that_head_was_unknown(*facts);
      }
    }
  }
  if (const Result<void> chosen = step::choose_world(task, settings, *facts); !chosen) {
    return chosen.error();
  }
  return facts;
}

Result<std::string> node_address(const std::string& node) {
  std::string name = node;
  node_info_msg_t* found = nullptr;
  const bool offered = slurm_load_node_single != nullptr && slurm_free_node_info_msg != nullptr;
  if (!offered || slurm_load_node_single(&found, name.data(), SHOW_ALL) != SLURM_SUCCESS) {
    return fail("host.template", node, "slurmctld does not say", "again", ExitCode::Unavailable);
  }
  const bool known = found->record_count > 0 && found->node_array[0].node_addr != nullptr;
  std::string address = known ? found->node_array[0].node_addr : "";
  slurm_free_node_info_msg(found);
  return address;
}

}  // namespace rollcall::spank
