#include "runtime/hooks/slurmctld.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/contract/hook_wire.h"
#include "runtime/job/node_list.h"
#include "runtime/launchers/slurm.h"
#include "runtime/step/resolved_step.h"

namespace rollcall::hooks {
namespace {

std::optional<std::uint32_t> number(const Request& request, std::string_view item) {
  return parse_integer<std::uint32_t>(request.item(item).value_or(""));
}

/// Adds the nodes of one component (an ordinary step has one) from the plugin's answer. Ranks count from 0 in each.
bool append(std::uint32_t offset, const std::string& answer, job::StepLayout& whole) {
  const std::vector<std::string> words = split(answer, ' ');
  const Result<std::vector<std::string>> hosts = job::expand_node_list(words[0]);
  const auto head = words.size() > 1 ? parse_integer<std::uint32_t>(words[1]) : std::nullopt;
  if (!hosts || !head || words.size() != hosts->size() + 2) {
    return false;
  }
  if (whole.component_nodes.empty() && *head < hosts->size()) {
    whole.head_host = (*hosts)[*head];
  }
  for (std::size_t node = 0; node < hosts->size(); ++node) {
    whole.hosts.push_back((*hosts)[node]);
    whole.tasks_per_node.push_back(parse_integer<std::uint32_t>(words[node + 2]).value_or(0));
  }
  whole.component_nodes.push_back(static_cast<std::uint32_t>(hosts->size()));
  whole.component_offsets.push_back(offset);
  return true;
}

/// Returns the range [first, end) of the components that may have nodes of this step. SPANK's number of nodes, that of
/// one component, is trusted: where it equals the step's, there is no other component. SLURM_HET_SIZE may be the
/// user's.
std::pair<std::uint32_t, std::uint32_t> components(const Request& request, const Environment& task,
                                                   const job::JobFacts& facts) {
  const std::uint32_t own = number(request, "job").value_or(*facts.job_id) - *facts.job_id;
  if (number(request, "nodes") == facts.num_nodes && own < launchers::kMostComponents) {
    return {own, own + 1};
  }
  const auto size = parse_integer<std::uint32_t>(task.get(env::kSlurmHetSize).value_or(""));
  return {0, facts.het ? std::min(size.value_or(1), launchers::kMostComponents) : 1};
}

/// Asks slurmctld for the step's layout. Nothing where it does not answer or this Slurm cannot ask.
std::optional<job::StepLayout> layout_from_controller(PluginLink& plugin, const Request& request,
                                                      const Environment& task, const job::JobFacts& facts) {
  if (!facts.job_id || !facts.step_id) {
    return std::nullopt;
  }
  const auto [first, end] = components(request, task, facts);
  job::StepLayout whole;
  // For slurmctld each component is a job, with consecutive ids. Not all of them are in this step.
  for (std::uint32_t index = first; index < end && whole.hosts.size() < facts.num_nodes; ++index) {
    const std::string answer =
        plugin.ask(hook::kAskLayout, fmt::format("{} {}", *facts.job_id + index, *facts.step_id));
    if (!answer.empty() && !append(index, answer, whole)) {
      return std::nullopt;
    }
  }
  if (!facts.het) {
    whole.component_nodes.clear();
    whole.component_offsets.clear();
  }
  return whole.hosts.empty() ? std::nullopt : std::optional(std::move(whole));
}

/// Returns whether the variables of the step and its het job do not show the order of nodes and rank 0's host.
bool only_controller_knows(const Environment& environment, const job::JobFacts& facts) {
  const bool known = facts.het ? launchers::het_layout(environment, facts).has_value() : true;
  return facts.num_nodes > 1 && (launchers::is_arbitrary(environment) || !known);
}

void cross_check(const Request& request, job::JobFacts& facts) {
  const std::optional<std::uint32_t> rank = number(request, "rank");
  if (!facts.het && rank && *rank != facts.rank) {
    facts.warnings.push_back(
        fmt::format("SLURM_PROCID: {}: is {} according to SPANK; SLURM_PROCID is used", facts.rank, *rank));
  }
}

}  // namespace

Result<job::JobFacts> task_facts(PluginLink& plugin, const Request& request, const Environment& task,
                                 const settings::LaunchSettings& settings) {
  ASSIGN_OR_RETURN(job::JobFacts facts, launchers::facts_from_slurm(task));
  facts.source = "spank";
  cross_check(request, facts);
  if (only_controller_knows(task, facts)) {
    if (const auto layout = layout_from_controller(plugin, request, task, facts)) {
      job::adopt_layout(*layout, facts);
      if (facts.head_known_to_all) {
        launchers::forget_that_head_was_unknown(facts);
      }
    }
  }
  RETURN_IF_ERROR(step::choose_world(task, settings, facts));
  return facts;
}

Result<std::string> node_address(PluginLink& plugin, const Request& request, const std::string& node) {
  const std::string known = request.environment.get(hook::kHeadAddress).value_or("");
  if (known.starts_with(node + " ")) {
    return known.substr(node.size() + 1);
  }
  std::string address = plugin.ask(hook::kAskAddress, node);
  if (address.empty()) {
    return fail("host.template", node, "slurmctld did not answer", "starting the step again", ErrorKind::Unavailable);
  }
  return address;
}

}  // namespace rollcall::hooks
