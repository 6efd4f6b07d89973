#pragma once

#include <optional>

#include "runtime/hooks/plugin_link.h"
#include "runtime/network/shared_look_ups.h"

namespace rollcall::hooks {

/// Sets the environment of a task that is about to start, and prints the warnings. Returns success, or the exit code
/// with which the task must end because it cannot join the rendezvous. If that takes longer than the setting
/// task.timeout, it ends the task and this process. Without the option --ddp it removes the variables that a rollcall
/// set in another step, from which the environment was inherited. `shared` is the memory of this node's tasks.
///
/// One task reports a failure: rank 0 where all nodes have it, the first failing task of a node where probably only
/// this node has it, and rank 1 where rank 0 does not have it.
[[nodiscard]] ExitCode serve_task(PluginLink& plugin, const Request& request,
                                  std::optional<network::SharedLookUps>& shared);

}  // namespace rollcall::hooks
