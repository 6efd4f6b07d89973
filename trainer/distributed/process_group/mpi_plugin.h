#pragma once

#include "runtime/base/result.h"
#include "trainer/distributed/backends/mpi/plugin.h"

namespace rollcall::process_group {

/// The plugin for MPI: rollcall_mpi.so of this installation, opened once and never closed. Errors: (Usage) there is
/// none; (Unavailable) it cannot be opened, since a library that it needs is not found; (Mismatch) it is of another
/// build.
[[nodiscard]] Result<const mpi::Plugin*> load_mpi_plugin();

}  // namespace rollcall::process_group
