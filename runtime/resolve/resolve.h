#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/network/network_view.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::resolve {

enum class Action {
  Set,   ///< put `value` into the environment
  Keep,  ///< the user set it: leave it alone
  Unset  ///< remove it
};

/// One variable, what happens to it, and why: a row of `rollcall env`.
struct EnvChange {
  std::string name;
  std::string value;  ///< with Keep: the user's value
  Action action = Action::Set;
  std::string origin;  ///< the source: "slurm", "pmix", "setting host.template", "user", "network"
  std::string reason;  ///< one clause for users: "rank 0 is on jwb0001, jwb0001i resolves to 10.78.0.1"
};

/// All changes of one task's environment. Warnings are one line each, without the prefix "rollcall: warning: ".
struct EnvPatch {
  std::vector<EnvChange> changes;
  std::vector<std::string> warnings;         ///< about the step; rank 0 reports them
  std::vector<std::string> node_warnings;    ///< about this node; its first task reports them
  std::vector<std::string> task_warnings{};  ///< reported by this task, the first one of its node that is concerned

  /// Returns the change of `name`, or null.
  [[nodiscard]] const EnvChange* find(std::string_view name) const;
  /// Returns the warnings about the step, this node and this task.
  [[nodiscard]] std::vector<std::string> all_warnings() const;
};

/// Returns the environment after the patch.
[[nodiscard]] Environment apply(const EnvPatch& patch, Environment environment);

/// Computes the changes of a task's environment from its facts. Pure: the same input gives the same output on every
/// node.
///
/// `user` is the task's environment without rollcall. Its variables are kept, except those that an outer rollcall set:
/// ROLLCALL_SET names these with hashes of their values, so that a value changed since counts as the user's. A warning
/// reports a kept value that differs from rollcall's. A variable that differs between tasks, but has another task's
/// value (LOCAL_RANK=0 in all tasks), is replaced.
///
/// Errors: no name of the head node has a usable address; port.range is empty; the user's RANK or WORLD_SIZE
/// contradicts the step (Mismatch); no configured interface exists.
[[nodiscard]] Result<EnvPatch> resolve(const job::JobFacts& facts, const settings::LaunchSettings& settings,
                                       const network::NetworkView& network, const Environment& user,
                                       std::uint32_t cpus_of_task);

}  // namespace rollcall::resolve
