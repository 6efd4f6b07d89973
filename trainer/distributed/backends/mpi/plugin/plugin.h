#pragma once

#include <memory>
#include <string_view>

#include "runtime/base/result.h"
#include "trainer/distributed/backends/engine/engine.h"

namespace rollcall::process_group::mpi {

/// The interface of rollcall_mpi.so. It is a shared object so that programs also run without MPI. It uses plain C++
/// types, so program and plugin must come from one build.
struct Plugin {
  /// Identifies the build of the interface; a plugin of another build is refused.
  std::string_view build;
  /// Makes this rank's engine of a new group, over a communicator of its own. Collective over the group's ranks;
  /// initialises MPI in the first call. Errors: (Usage) no MPI launcher started this process, or MPI numbers the ranks
  /// differently; (Unavailable) MPI failed, now or earlier in another group.
  /// The result of `all_gather` has one entry for each rank. MPI is initialised after `arrival`, a separate all-gather,
  /// has returned: all ranks must have finalized their PMIx clients before. MPI would take a rank that does so later
  /// for absent (runtime/rendezvous/exec_step.cpp).
  Result<std::unique_ptr<Engine>> (*connect)(const BootstrapAllGather& arrival, const BootstrapAllGather& all_gather);
};

/// Name of the function `const Plugin* ()` that the shared object exports; its result is never null.
constexpr const char* kPluginFunction = "rollcall_mpi_plugin";
using PluginFunction = const Plugin* (*)();

}  // namespace rollcall::process_group::mpi
