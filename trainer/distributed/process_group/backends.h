#pragma once

#include <c10/util/intrusive_ptr.h>
#include <cstdint>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "trainer/distributed/process_group/factory.h"

namespace rollcall::process_group {

// One function and one file per back end; factory.cpp alone calls them. Of the options they read what concerns a
// group whose back end is chosen. They throw what c10d throws.

/// Gloo carries this group's collectives on CPU tensors, and it becomes the default back end.
void add_gloo(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
              const ProcessGroupOptions& options);

/// The ranks to which a group's Gloo has no connection any more. Sends each of the others some bytes.
[[nodiscard]] std::vector<std::uint32_t> broken_gloo_peers(c10d::Backend& gloo);

#ifdef ROLLCALL_UCX
/// UCX (trainer/distributed/process_group/ucx) carries this group's collectives on CPU tensors, and it becomes the
/// default back end.
void add_ucx(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
             const ProcessGroupOptions& options);
#endif

/// MPI, in the plugin rollcall_mpi.so, carries this group's collectives on CPU tensors, and it becomes the default back
/// end. Throws CollectiveFailure with the errors of load_mpi_plugin() and mpi::Plugin::connect().
void add_mpi(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
             const ProcessGroupOptions& options);

#ifdef ROLLCALL_CUDA
/// Whether NCCL has a GPU to work on.
[[nodiscard]] bool nccl_is_usable();

/// NCCL carries this group's collectives on CUDA tensors of the current device, and it becomes the default back end.
void add_nccl(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
              const ProcessGroupOptions& options);
#endif

}  // namespace rollcall::process_group
