#include "runtime/launchers/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/node_list.h"
#include "runtime/launchers/launcher.h"

namespace rollcall::launchers {
namespace {

/// The smallest id of a special step: interactive, batch, extern, pending (SLURM_INTERACTIVE_STEP and others in
/// slurm.h).
constexpr std::int64_t kFirstSpecialStep = 0xfffffffa;

Error damaged(std::string_view name, const std::string& value, const std::string& reason) {
  return damaged_variable(name, value, reason, "Slurm");
}

Result<void> read_layout(const Environment& environment, job::JobFacts& facts) {
  const std::string list = environment.get(env::kSlurmStepNodeList).value_or("");
  Result<std::vector<std::string>> hosts = job::expand_node_list(list);
  if (!hosts) {
    return damaged(env::kSlurmStepNodeList, list, hosts.error().reason);
  }
  if (hosts->size() != facts.num_nodes) {
    return damaged(
        env::kSlurmStepNodeList, list,
        fmt::format("has a length of {}, but {} is {}", hosts->size(), env::kSlurmStepNodes, facts.num_nodes));
  }
  facts.hosts = std::move(*hosts);
  const auto text = environment.get_non_empty(env::kSlurmStepTasksPerNode);
  if (!text && facts.num_nodes == 1) {
    facts.tasks_per_node = {facts.world_size};
    return {};
  }
  Result<std::vector<std::uint32_t>> tasks = job::expand_tasks_per_node(text.value_or(""));
  if (!tasks) {
    return damaged(env::kSlurmStepTasksPerNode, text.value_or(""), tasks.error().reason);
  }
  const std::uint64_t sum = std::accumulate(tasks->begin(), tasks->end(), std::uint64_t{0});
  if (tasks->size() != facts.num_nodes || sum != facts.world_size) {
    return damaged(env::kSlurmStepTasksPerNode, *text,
                   fmt::format("does not fit {}={} and {}={}", env::kSlurmStepTasks, facts.world_size,
                               env::kSlurmStepNodes, facts.num_nodes));
  }
  facts.tasks_per_node = std::move(*tasks);
  return {};
}

Result<void> check_ranks(const job::JobFacts& facts) {
  if (facts.rank >= facts.world_size) {
    return damaged(env::kSlurmProcId, std::to_string(facts.rank),
                   fmt::format("must be below the number of tasks, {}", facts.world_size));
  }
  if (facts.local_rank >= facts.local_world_size) {
    return damaged(env::kSlurmLocalId, std::to_string(facts.local_rank),
                   fmt::format("must be below the number of tasks on this node, {}", facts.local_world_size));
  }
  return {};
}

/// Returns the index of this node in `hosts`: its node rank, or the index of its name where Slurm sorted the nodes of a
/// het step.
std::size_t index_of_this_node(const job::JobFacts& facts) {
  if (facts.het && facts.hosts[facts.node_rank] != facts.this_host) {
    const auto found = std::find(facts.hosts.begin(), facts.hosts.end(), facts.this_host);
    return found == facts.hosts.end() ? facts.node_rank : static_cast<std::size_t>(found - facts.hosts.begin());
  }
  return facts.node_rank;
}

constexpr std::string_view kUnknownHead = "no environment variable names the node of rank 0";

void find_head(const Environment& environment, job::JobFacts& facts) {
  const bool sorted_otherwise = index_of_this_node(facts) != facts.node_rank;
  if (facts.num_nodes == 1 || (!is_arbitrary(environment) && !sorted_otherwise)) {
    facts.head_host = facts.hosts.front();
    return;
  }
  // Slurm sorts its lists whatever the order of tasks is, so the first host may not be rank 0's.
  facts.head_known_to_all = false;
  if (facts.rank == 0) {
    facts.head_host = facts.this_host;
    return;
  }
  facts.warnings.push_back(fmt::format("{}: {}; try srun --ddp, or srun --mpi=pmix for rollcall's own programs",
                                       sorted_otherwise ? "SLURM_HET_SIZE" : "SLURM_DISTRIBUTION: arbitrary",
                                       kUnknownHead));
}

void cross_check_pmix(const Environment& environment, job::JobFacts& facts) {
  const auto text = environment.get_non_empty(env::kPmixRank);
  if (text && parse_integer<std::uint32_t>(*text) != facts.rank) {
    facts.warnings.push_back(
        fmt::format("PMIX_RANK: {}: differs from SLURM_PROCID, {}, which is used", *text, facts.rank));
  }
}

std::uint32_t number_of_components(const Environment& environment) {
  const auto number = parse_integer<std::uint32_t>(environment.get(env::kSlurmHetSize).value_or(""));
  return std::min(number.value_or(0), kMostComponents);
}

/// Returns the nodes of one component of the allocation; empty where they are unknown.
std::vector<std::string> nodes_of_component(const Environment& environment, std::uint32_t index) {
  const std::string name = fmt::format("{}{}", env::kSlurmHetNodeList, index);
  Result<std::vector<std::string>> hosts = job::expand_node_list(environment.get(name).value_or(""));
  return hosts ? std::move(*hosts) : std::vector<std::string>{};
}

/// Reads the host of each rank from a host file, whose lines are a name, a node list or NAME*COUNT. Stops at an invalid
/// line, or after more than `most` hosts: the file is then not this step's.
std::vector<std::string> read_hosts(const std::string& path, std::size_t most) {
  constexpr std::size_t kLongest = std::size_t{16} << 20;
  std::vector<std::string> hosts;
  std::string content;
  if (!read_small_file(path, kLongest, content).reason.empty()) {
    return hosts;
  }
  std::istringstream file(std::move(content));
  for (std::string line; hosts.size() <= most && std::getline(file, line);) {
    const std::string_view entry = trim(std::string_view(line).substr(0, line.find('#')));
    if (entry.empty()) {
      continue;
    }
    const std::size_t star = entry.find('*');
    const auto times = star == entry.npos ? 1U : parse_integer<std::uint32_t>(entry.substr(star + 1)).value_or(0);
    const auto names = job::expand_node_list(entry.substr(0, star));
    if (!names || times == 0 || times > most) {
      break;
    }
    for (std::uint32_t i = 0; i < times; ++i) {
      hosts.insert(hosts.end(), names->begin(), names->end());
    }
  }
  return hosts;
}

bool describes(const std::vector<std::string>& host_of_rank, const job::JobFacts& facts) {
  if (host_of_rank.size() != facts.world_size || host_of_rank[facts.rank] != facts.this_host) {
    return false;
  }
  std::map<std::string, std::uint32_t> counted;
  for (const std::string& host : host_of_rank) {
    ++counted[host];
  }
  std::map<std::string, std::uint32_t> expected;
  for (std::size_t node = 0; node < facts.hosts.size(); ++node) {
    expected[facts.hosts[node]] = facts.tasks_per_node[node];
  }
  return counted == expected;
}

}  // namespace

bool is_arbitrary(const Environment& environment) {
  return environment.get("SLURM_DISTRIBUTION").value_or("").starts_with("arbitrary");
}

std::optional<std::string> why_not_a_slurm_task(const Environment& environment) {
  for (const std::string_view name :
       {env::kSlurmJobId, env::kSlurmStepId, env::kSlurmProcId, env::kSlurmStepNodeList}) {
    if (!environment.get_non_empty(name)) {
      return fmt::format("{} is not set", name);
    }
  }
  const std::string step = environment.get(env::kSlurmStepId).value_or("");
  const auto number = parse_integer<std::int64_t>(step);
  if (number && (*number < 0 || *number >= kFirstSpecialStep)) {
    return fmt::format("{} {} is a batch script or another special step, not a step of srun", env::kSlurmStepId, step);
  }
  return std::nullopt;
}

Result<job::JobFacts> facts_from_slurm(const Environment& environment) {
  if (const auto reason = why_not_a_slurm_task(environment)) {
    return fail("Slurm", "", *reason, "starting the program with srun", ErrorKind::Unavailable);
  }
  job::JobFacts facts;
  facts.source = "slurm";
  Numbers numbers(environment, "Slurm");
  facts.job_id = numbers.required(env::kSlurmJobId);
  facts.step_id = numbers.required(env::kSlurmStepId);
  facts.rank = numbers.required(env::kSlurmProcId);
  facts.world_size = numbers.required(env::kSlurmStepTasks);
  facts.local_rank = numbers.required(env::kSlurmLocalId);
  facts.node_rank = numbers.required(env::kSlurmNodeId);
  facts.num_nodes = numbers.required(env::kSlurmStepNodes);
  facts.restart_count = numbers.optional(env::kSlurmRestartCount).value_or(0);
  if (numbers.error()) {
    return *numbers.error();
  }
  RETURN_IF_ERROR(read_layout(environment, facts));
  if (facts.node_rank >= facts.num_nodes) {
    return damaged(env::kSlurmNodeId, std::to_string(facts.node_rank),
                   fmt::format("must be below the number of nodes, {}", facts.num_nodes));
  }
  facts.this_host = environment.get_non_empty(env::kSlurmNodeName).value_or(facts.hosts[facts.node_rank]);
  facts.het = environment.get_non_empty(env::kSlurmHetSize).has_value();
  const auto layout = facts.het ? het_layout(environment, facts) : std::nullopt;
  if (layout && layout->hosts[facts.node_rank] == facts.this_host) {
    job::adopt_layout(*layout, facts);
  }
  facts.local_world_size = facts.tasks_per_node[index_of_this_node(facts)];
  RETURN_IF_ERROR(check_ranks(facts));
  const std::string ranks_here = environment.get("SLURM_GTIDS").value_or("");
  facts.first_rank_here = parse_integer<std::uint32_t>(ranks_here.substr(0, ranks_here.find(',')))
                              .value_or(facts.rank - std::min(facts.rank, facts.local_rank));
  facts.reserved_ports = environment.get("SLURM_STEP_RESV_PORTS").value_or("");
  find_head(environment, facts);
  cross_check_pmix(environment, facts);
  return facts;
}

void forget_that_head_was_unknown(job::JobFacts& facts) {
  std::erase_if(facts.warnings, [](const std::string& text) { return text.find(kUnknownHead) != text.npos; });
}

std::optional<job::StepLayout> het_layout(const Environment& environment, const job::JobFacts& facts) {
  std::map<std::string, std::uint32_t> tasks_left;
  for (std::size_t node = 0; node < facts.hosts.size(); ++node) {
    tasks_left.emplace(facts.hosts[node], facts.tasks_per_node[node]);
  }
  job::StepLayout layout;
  const std::uint32_t components = number_of_components(environment);
  for (std::uint32_t index = 0; index < components; ++index) {
    const std::size_t before = layout.hosts.size();
    for (std::string& host : nodes_of_component(environment, index)) {
      if (const auto tasks = tasks_left.extract(host)) {
        layout.tasks_per_node.push_back(tasks.mapped());
        layout.hosts.push_back(std::move(host));
      }
    }
    if (layout.hosts.size() > before) {
      layout.component_nodes.push_back(static_cast<std::uint32_t>(layout.hosts.size() - before));
      layout.component_offsets.push_back(index);
    }
  }
  const bool complete = tasks_left.empty() && layout.hosts.size() == facts.num_nodes;
  if (!complete) {
    return std::nullopt;
  }
  layout.head_host = layout.hosts.front();
  return layout;
}

void find_head_in_host_file(const Environment& environment, job::JobFacts& facts) {
  const auto path = environment.get_non_empty("SLURM_HOSTFILE");
  if (facts.head_known_to_all || !path || facts.hosts.empty() || facts.tasks_per_node.size() != facts.hosts.size()) {
    return;
  }
  const std::vector<std::string> host_of_rank = read_hosts(*path, facts.world_size);
  if (describes(host_of_rank, facts)) {
    facts.head_host = host_of_rank.front();
    facts.head_known_to_all = true;
    forget_that_head_was_unknown(facts);
  }
}

}  // namespace rollcall::launchers
