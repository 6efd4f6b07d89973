#pragma once

#include <optional>

#include "runtime/hooks/plugin_link.h"
#include "runtime/network/shared_look_ups.h"

namespace rollcall::hooks {

/// The node side, for a task that is about to start: gives it its environment and prints the warnings (rank 0). Returns
/// the exit code with which it has to end instead where it cannot have its rendezvous. Where that takes longer than the
/// setting task.timeout it ends the task, too, and this process. Without an option it takes away what a rollcall set in
/// another step, from which the environment came. `shared`: by the tasks of this node.
///
/// One task tells the user about a failure: rank 0 about one that all nodes share, the first task that fails of a node
/// about one that is likely this node's alone, rank 1 about one that spares rank 0.
[[nodiscard]] ExitCode serve_task(PluginLink& plugin, const Request& request,
                                  std::optional<network::SharedLookUps>& shared);

}  // namespace rollcall::hooks
