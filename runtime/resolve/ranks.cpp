#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/resolve/patch_builder.h"

namespace rollcall::resolve {
namespace {

/// Checks the user's rank or world size. A wrong one would hang or silently corrupt a run, so that it is an error.
Result<void> check_users(std::string_view name, std::uint32_t ours, const Inputs& inputs, const PatchBuilder& patch) {
  const std::optional<std::string> value = patch.users(name);
  if (!value || *value == std::to_string(ours)) {
    return {};
  }
  if (inputs.facts.source == "single") {
    Error error = fail(std::string(name), *value, std::string(job::kNoLauncher),
                       fmt::format("unsetting {}, or setting both RANK and WORLD_SIZE", name), ErrorKind::Mismatch);
    error.of_this_node = true;  // no other process reports it
    return error;
  }
  return fail(std::string(name), *value,
              fmt::format("{} is {}", name == env::kRank ? "this task's rank" : "the number of ranks", ours),
              fmt::format("unsetting {} before srun", name), ErrorKind::Mismatch);
}

struct Row {
  std::string_view name;
  std::uint32_t value = 0;
  std::string reason;
  std::optional<std::uint32_t> firsts{};  ///< Proposal::firsts
};

/// Returns whether the user set LOCAL_RANK=0 for a task that sees one GPU: programs that use GPU number LOCAL_RANK then
/// find that GPU, so the value is kept.
bool is_only_gpu(const Row& row, const Inputs& inputs, const PatchBuilder& patch) {
  const std::string visible = inputs.user.get(env::kCudaVisible).value_or("");
  const bool one = !visible.empty() && visible.find(',') == visible.npos && !inputs.settings.all_gpus_of_node;
  return row.name == env::kLocalRank && one && patch.users(row.name) == "0";
}

}  // namespace

Result<void> add_ranks(const Inputs& inputs, PatchBuilder& patch) {
  const job::JobFacts& facts = inputs.facts;
  for (const auto& [name, value] : {std::pair{env::kRank, facts.rank}, std::pair{env::kWorldSize, facts.world_size}}) {
    RETURN_IF_ERROR(check_users(name, value, inputs, patch));
  }
  const std::string on_node = facts.this_host.empty() ? "on its node" : "on " + facts.this_host;
  const std::string task = fmt::format("task {} of {}", facts.rank, facts.world_size);
  const std::string tasks = "tasks of the step on " + counted(facts.num_nodes, "node");
  const std::string local_task = fmt::format("task {} of {} {}", facts.local_rank, facts.local_world_size, on_node);
  const std::string local_tasks = fmt::format("tasks of the step {}", on_node);
  const std::string node = fmt::format("node {} of {}", facts.node_rank, facts.num_nodes);
  const std::array<Row, 13> rows{{{env::kRank, facts.rank, task},
                                  {env::kWorldSize, facts.world_size, tasks},
                                  {env::kLocalRank, facts.local_rank, local_task, 0},
                                  {env::kLocalWorldSize, facts.local_world_size, local_tasks, facts.local_world_size},
                                  {env::kGroupRank, facts.node_rank, node, facts.node_rank},
                                  {env::kGroupWorldSize, facts.num_nodes, "nodes of the step"},
                                  {env::kNodeRank, facts.node_rank, node, facts.node_rank},
                                  {env::kRoleRank, facts.rank, task, facts.first_rank_here},
                                  {env::kRoleWorldSize, facts.world_size, "all tasks have one role"},
                                  {env::kLocalSize, facts.local_world_size, local_tasks, facts.local_world_size},
                                  {env::kCrossRank, facts.node_rank, node, facts.node_rank},
                                  {env::kCrossSize, facts.num_nodes, "nodes of the step"},
                                  {env::kRestartCount, facts.restart_count, "how often the job was requeued"}}};
  for (const Row& row : rows) {
    Proposal proposal{row.name, std::to_string(row.value), facts.source, row.reason};
    if (row.firsts && !is_only_gpu(row, inputs, patch)) {
      proposal.firsts = std::to_string(*row.firsts);
    }
    patch.propose(proposal);
  }
  patch.propose({env::kRoleName, "default", "rollcall", "all tasks have one role"});
  return {};
}

}  // namespace rollcall::resolve
