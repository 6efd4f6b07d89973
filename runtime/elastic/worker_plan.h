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

/// Where this node's workers stand among all of a generation.
struct Placement {
  std::uint32_t first_rank = 0;  ///< RANK of local rank 0
  std::uint32_t world_size = 0;
  std::uint32_t first_role_rank = 0;  ///< the same among the workers of its role
  std::uint32_t role_world_size = 0;
  std::uint32_t group_rank = 0;  ///< of this node among the nodes
  std::uint32_t group_world_size = 0;
};

/// The place of node `group_rank` of `world`: ranks are counted node by node, as torchrun counts them
/// (torch/distributed/elastic/agent/server/api.py, _assign_worker_ranks). Pure.
[[nodiscard]] Placement place_of(const std::vector<Node>& world, std::uint32_t group_rank);

/// The variables that a worker gets on top of the agent's own environment: torchrun's names and values, and what the
/// plugin or `rollcall exec` told the agent of itself, as it is for this worker. `error_file` may be empty: there is
/// none. Errors (Usage): --virtual-local-rank, and CUDA_VISIBLE_DEVICES names too few GPUs. Pure.
[[nodiscard]] Result<Variables> worker_variables(const LaunchRequest& request, const Generation& generation,
                                                 std::uint32_t local_rank, const std::string& error_file,
                                                 const Environment& agent);

/// OMP_NUM_THREADS of a worker; nothing: the agent's is right. What the plugin gave is for the agent's whole task,
/// whose workers share it; a user's stands; and where there is none, each of several has 1, as under torchrun. Pure.
[[nodiscard]] std::optional<std::string> worker_threads(const LaunchRequest& request, const Environment& agent);

/// A worker's command line: ${local_rank} in arguments is replaced. Pure.
[[nodiscard]] std::vector<std::string> worker_command(const LaunchRequest& request, std::uint32_t local_rank);

/// What stands before its lines of --tee. Pure.
[[nodiscard]] std::string line_prefix(const LaunchRequest& request, const Generation& generation,
                                      std::uint32_t local_rank, const std::string& host);

/// Replaces ${name}, $name and $$ by Python's rules (string.Template.safe_substitute): what is not in `macros` stays.
[[nodiscard]] std::string substitute(std::string_view text,
                                     const std::vector<std::pair<std::string_view, std::string>>& macros);

}  // namespace rollcall::elastic
