#pragma once

#include <memory>
#include <string_view>

#include "runtime/base/result.h"
#include "trainer/distributed/backends/engine/engine.h"

namespace rollcall::process_group::mpi {

/// What rollcall_mpi.so offers the programs that load it: a shared object, so that they run where there is no MPI. Both
/// are of one build: plain C++ crosses the border.
struct Plugin {
  /// Sums up what crosses the border; a plugin of another build is refused.
  std::string_view build;
  /// This rank's engine of a new group, over a communicator of its own. Collective over the group's ranks; begins MPI
  /// where that has not happened yet. Errors: (Usage) no MPI launcher started this process, or MPI counts the ranks
  /// otherwise; (Unavailable) MPI failed, also earlier in another group.
  /// Ranks are counted by what `exchange` returns. MPI begins when `arrival` has returned, an exchange of its own: only
  /// where all ranks have ended what their processes were before, clients of PMIx. A rank that ended that later would
  /// count as absent from what MPI does then (runtime/rendezvous/exec_step.cpp).
  Result<std::unique_ptr<Engine>> (*connect)(const Exchange& arrival, const Exchange& exchange);
};

/// Name of the function `const Plugin* ()` that the shared object exports; what it returns is never null.
constexpr const char* kPluginFunction = "rollcall_mpi_plugin";
using PluginFunction = const Plugin* (*)();

}  // namespace rollcall::process_group::mpi
