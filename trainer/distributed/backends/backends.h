#pragma once

#include <c10/util/intrusive_ptr.h>
#include <chrono>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/distributed/processes/processes.h"

namespace rollcall::process_group {

// One function and one folder per backend. They throw what c10d throws.

struct BackendOptions {
  std::chrono::milliseconds timeout{600'000};  ///< a collective that takes longer is an error
  RankNames names{};                           ///< of the group's ranks, in messages
};

/// Gloo carries this group's collectives on CPU tensors, and it becomes the default backend.
void add_gloo(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store, const BackendOptions& options);

#ifdef ROLLCALL_UCX
/// UCX carries this group's collectives on CPU tensors, and it becomes the default backend.
void add_ucx(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store, const BackendOptions& options);
#endif

/// MPI, in the plugin rollcall_mpi.so, carries this group's collectives on CPU tensors, and it becomes the default back
/// end. Throws CollectiveFailure with the errors of mpi::Plugin::connect(), or: (Usage) there is no plugin;
/// (Unavailable) it cannot be opened, since a library that it needs is not found; (Mismatch) it is of another build.
void add_mpi(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store, const BackendOptions& options);

}  // namespace rollcall::process_group
