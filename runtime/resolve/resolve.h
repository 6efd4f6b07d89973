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
  std::string origin;  ///< who knows it: "slurm", "pmix", "setting host.template", "user", "network"
  std::string reason;  ///< one clause for a person: "rank 0 is on jwb0001, rule {host}i, resolves to 10.78.0.1"
};

/// Everything that rollcall does to one task's environment.
struct EnvPatch {
  std::vector<EnvChange> changes;
  std::vector<std::string> warnings;       ///< one-line texts without the "rollcall:" prefix; the step's: rank 0 tells
  std::vector<std::string> node_warnings;  ///< of what other nodes need not have: the first task of each node tells
  std::vector<std::string> task_warnings{};  ///< this task tells: the first of its node that has a reason

  [[nodiscard]] const EnvChange* find(std::string_view name) const;
  /// Of the step, of this node and of this task.
  [[nodiscard]] std::vector<std::string> all_warnings() const;
};

/// The environment after the patch.
[[nodiscard]] Environment apply(const EnvPatch& patch, Environment environment);

/// The heart of rollcall: facts in, environment out. Pure: no I/O, no globals, same input, same output on every node.
///
/// `user` is the environment that the task would have without rollcall. A variable that it holds is kept, unless an
/// outer rollcall set it (variable ROLLCALL_SET names those, with a hash of the value it gave: a value changed since is
/// the user's). Where a kept value disagrees with ours, a warning says so. What tells tasks apart and is not this
/// task's (LOCAL_RANK=0 in all of them) is replaced.
///
/// Errors: no candidate name of the head node resolves usably; port.range is empty; a
/// user's RANK or WORLD_SIZE contradicts the step (exit code Mismatch); a configured interface exists nowhere.
[[nodiscard]] Result<EnvPatch> resolve(const job::JobFacts& facts, const settings::LaunchSettings& settings,
                                       const network::NetworkView& network, const Environment& user,
                                       std::uint32_t cpus_of_task);

}  // namespace rollcall::resolve
