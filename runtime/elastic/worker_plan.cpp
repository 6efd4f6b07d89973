#include "runtime/elastic/worker_plan.h"

#include <algorithm>
#include <map>
#include <optional>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/marker.h"

namespace rollcall::elastic {
namespace {

bool may_begin_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// Returns the length of the identifier at the beginning of `text`; 0: none.
std::size_t name_length(std::string_view text) {
  if (text.empty() || !may_begin_name(text.front())) {
    return 0;
  }
  const auto end = std::ranges::find_if_not(text, [](char c) { return may_begin_name(c) || (c >= '0' && c <= '9'); });
  return static_cast<std::size_t>(end - text.begin());
}

/// Makes each worker see only its own GPU, as device 0. ROCm's variable precedes CUDA's where it is set.
Result<void> add_own_gpu(std::uint32_t local_rank, const Environment& agent, Variables& variables) {
  const auto hip = agent.get_non_empty("HIP_VISIBLE_DEVICES");
  const auto visible = hip ? hip : agent.get(env::kCudaVisible);
  std::string gpu = std::to_string(local_rank);
  if (visible) {
    const std::vector<std::string> gpus = split(*visible, ',');
    if (local_rank >= gpus.size()) {
      return fail("--virtual-local-rank", *visible, "names fewer GPUs than there are workers",
                  "--nproc-per-node=" + std::to_string(gpus.size()));
    }
    gpu = trim(gpus[local_rank]);
  }
  variables.emplace_back(env::kCudaVisible, gpu);
  if (hip) {
    variables.emplace_back("HIP_VISIBLE_DEVICES", gpu);
  }
  return {};
}

/// Updates the variables with the task's placement that rollcall set for the agent, for programs other than torch: a
/// worker has another placement. Values of the user are kept.
void renew_for_worker(const LaunchRequest& request, const Environment& agent, Variables& variables) {
  const std::map<std::string_view, std::string> made(variables.begin(), variables.end());
  Variables renewed{
      {std::string(env::kNodeRank), made.at(env::kGroupRank)},
      {std::string(env::kLocalSize), made.at(env::kLocalWorldSize)},
      {std::string(env::kCrossRank), made.at(env::kGroupRank)},
      {std::string(env::kCrossSize), made.at(env::kGroupWorldSize)},
      {std::string(env::kJaxCoordinator), host_and_port(made.at(env::kMasterAddr), made.at(env::kMasterPort))},
      {std::string(env::kJaxNumProcesses), made.at(env::kWorldSize)},
      {std::string(env::kJaxProcessId), made.at(env::kRank)},
  };
  if (request.workers > 1 || request.virtual_local_rank) {
    renewed.emplace_back(env::kJaxLocalDevices, made.at(env::kLocalRank));  // the GPU that torch programs use
  }
  const job::Marker marker = job::marker_of(agent);
  for (auto& [name, value] : renewed) {
    if (job::is_marked(marker, name, agent.get(name).value_or(""))) {
      variables.emplace_back(std::move(name), std::move(value));
    }
  }
}

}  // namespace

std::optional<std::string> worker_threads(const LaunchRequest& request, const Environment& agent) {
  const std::optional<std::string> own = agent.get(env::kOmpThreads);
  if (request.workers <= 1 || (own && !job::is_marked(job::marker_of(agent), env::kOmpThreads, *own))) {
    return std::nullopt;
  }
  const auto of_task = own ? parse_integer<std::uint32_t>(*own) : std::nullopt;
  return std::to_string(std::max(1U, of_task.value_or(1) / request.workers));
}

Placement placement_of(const std::vector<Node>& world, std::uint32_t group_rank) {
  Placement placement;
  const Node& own = world.at(group_rank);
  for (std::uint32_t i = 0; i < world.size(); ++i) {
    const bool same_role = world[i].role == own.role;
    placement.first_rank += i < group_rank ? world[i].workers : 0;
    placement.first_role_rank += i < group_rank && same_role ? world[i].workers : 0;
    placement.world_size += world[i].workers;
    placement.role_world_size += same_role ? world[i].workers : 0;
  }
  placement.group_rank = group_rank;
  placement.group_world_size = static_cast<std::uint32_t>(world.size());
  return placement;
}

Result<Variables> worker_variables(const LaunchRequest& request, const Generation& generation, std::uint32_t local_rank,
                                   const std::string& error_file, const Environment& agent) {
  const Placement placement = placement_of(generation.world, generation.group_rank);
  const auto number = [](std::uint32_t value) { return std::to_string(value); };
  Variables variables{
      {std::string(env::kRank), number(placement.first_rank + local_rank)},
      {std::string(env::kWorldSize), number(placement.world_size)},
      {std::string(env::kLocalWorldSize), number(request.workers)},
      {std::string(env::kGroupRank), number(placement.group_rank)},
      {std::string(env::kGroupWorldSize), number(placement.group_world_size)},
      {std::string(env::kRoleRank), number(placement.first_role_rank + local_rank)},
      {std::string(env::kRoleWorldSize), number(placement.role_world_size)},
      {std::string(env::kRoleName), request.role},
      {std::string(env::kMasterAddr), generation.address},
      {std::string(env::kMasterPort), number(generation.port)},
      {std::string(env::kRestartCount), number(generation.restarts)},
      {"TORCHELASTIC_MAX_RESTARTS", number(request.max_restarts)},
      {std::string(env::kTorchElasticRunId), request.meeting.run_id},
      // Rank 0 opens the store itself, at a port that no other generation used.
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCHELASTIC_ERROR_FILE", error_file},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", agent.get("TORCH_NCCL_ASYNC_ERROR_HANDLING").value_or("1")},
      {std::string(env::kGeneration), number(generation.number)},
      {std::string(env::kRun), generation.run},
  };
  if (auto threads = worker_threads(request, agent)) {
    variables.emplace_back(env::kOmpThreads, *std::move(threads));
  }
  variables.emplace_back(env::kLocalRank, request.virtual_local_rank ? "0" : number(local_rank));
  if (request.virtual_local_rank) {
    RETURN_IF_ERROR(add_own_gpu(local_rank, agent, variables));
  }
  renew_for_worker(request, agent, variables);
  return variables;
}

std::vector<std::string> worker_command(const LaunchRequest& request, std::uint32_t local_rank) {
  std::vector<std::string> command = request.program;
  for (std::size_t i = 1; i < command.size(); ++i) {
    command[i] = substitute(command[i], {{"local_rank", std::to_string(local_rank)}});
  }
  return command;
}

std::string line_prefix(const LaunchRequest& request, const Generation& generation, std::uint32_t local_rank,
                        const std::string& host) {
  const Placement placement = placement_of(generation.world, generation.group_rank);
  return substitute(request.logs.line_prefix, {{"role_name", request.role},
                                               {"local_rank", std::to_string(local_rank)},
                                               {"rank", std::to_string(placement.first_rank + local_rank)},
                                               {"hostname", host}});
}

std::string substitute(std::string_view text, const std::vector<std::pair<std::string_view, std::string>>& macros) {
  std::string result;
  while (!text.empty()) {
    const std::size_t dollar = std::min(text.find('$'), text.size());
    result += text.substr(0, dollar);
    text.remove_prefix(dollar);
    if (text.empty()) {
      break;
    }
    if (text.starts_with("$$")) {
      result += '$';
      text.remove_prefix(2);
      continue;
    }
    const std::size_t brace = text.starts_with("${") ? 1 : 0;
    const std::size_t length = name_length(text.substr(1 + brace));
    const std::string_view name = text.substr(1 + brace, length);
    const bool whole = length > 0 && (brace == 0 || text.substr(2 + length).starts_with('}'));
    const auto known = std::ranges::find(macros, name, &std::pair<std::string_view, std::string>::first);
    const std::size_t end = whole ? 1 + brace + length + brace : 1;
    result += whole && known != macros.end() ? known->second : std::string(text.substr(0, end));
    text.remove_prefix(end);
  }
  return result;
}

}  // namespace rollcall::elastic
