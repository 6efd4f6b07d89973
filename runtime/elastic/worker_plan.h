#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/elastic/launch_request.h"
#include "runtime/elastic/membership.h"
#include "runtime/elastic/worker_link.h"

namespace rollcall::elastic {

/// The ranks of this node's workers within a generation.
struct Placement {
  std::uint32_t first_rank = 0;  ///< RANK of local rank 0
  std::uint32_t world_size = 0;
  std::uint32_t first_role_rank = 0;  ///< likewise, among the workers of the same role
  std::uint32_t role_world_size = 0;
  std::uint32_t group_rank = 0;  ///< of this node among the nodes
  std::uint32_t group_world_size = 0;
};

/// Returns the placement of node `group_rank` of `world`. Ranks are counted node by node, as in torchrun
/// (torch/distributed/elastic/agent/server/api.py, _assign_worker_ranks). Pure.
[[nodiscard]] Placement placement_of(const std::vector<Node>& world, std::uint32_t group_rank);

/// Returns the variables that a worker gets in addition to the agent's environment: torchrun's names and values, and
/// what the plugin or `rollcall exec` set for the agent, adapted to this worker. An empty `error_file` means none.
/// Errors (Usage): --virtual-local-rank is given and CUDA_VISIBLE_DEVICES names too few GPUs. Pure.
[[nodiscard]] Result<Variables> worker_variables(const LaunchRequest& request, const Generation& generation,
                                                 std::uint32_t local_rank, const std::string& error_file,
                                                 const Environment& agent);

/// Returns OMP_NUM_THREADS of a worker; unset: the agent's value is right. The plugin's value is for the agent's whole
/// task and is divided among its workers; a user's value is kept; without one, each of several workers gets 1, as under
/// torchrun. Pure.
[[nodiscard]] std::optional<std::string> worker_threads(const LaunchRequest& request, const Environment& agent);

/// Returns a worker's command line, with ${local_rank} in the arguments replaced. Pure.
[[nodiscard]] std::vector<std::string> worker_command(const LaunchRequest& request, std::uint32_t local_rank);

/// Returns the prefix of a worker's lines with --tee. Pure.
[[nodiscard]] std::string line_prefix(const LaunchRequest& request, const Generation& generation,
                                      std::uint32_t local_rank, const std::string& host);

/// Replaces ${name}, $name and $$ by the rules of Python's string.Template.safe_substitute: unknown names stay as is.
[[nodiscard]] std::string substitute(std::string_view text,
                                     const std::vector<std::pair<std::string_view, std::string>>& macros);

}  // namespace rollcall::elastic
