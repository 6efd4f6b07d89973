#pragma once

#include <mpi.h>
#include <mutex>
#include <string>

#include "runtime/base/result.h"

namespace rollcall::process_group::mpi {

/// Every call of MPI after begin() is made with this held: MPI is asked for MPI_THREAD_SERIALIZED only, which all
/// implementations offer and none is slowed down by. Held across a wait for other ranks only where all of them are
/// known to come: when a communicator is made, and at the end.
[[nodiscard]] std::mutex& mpi_mutex();

/// MPI's own text for an error code.
[[nodiscard]] std::string text_of(int code);

/// "--backend: mpi: ...", Unavailable.
[[nodiscard]] Error failed(const std::string& what, int code);

/// Error (Usage): nothing shows that an MPI launcher started this process, where Open MPI would end it with a page of
/// its own errors.
[[nodiscard]] Result<void> check_launched();

/// MPI_Init_thread(), once a process, and MPI_Finalize() at its end (see finalize_at_exit() in world.cpp). Where
/// check_launched() found no error. Errors: (Unavailable) MPI failed.
[[nodiscard]] Result<void> begin();

/// A group failed: MPI cannot go on, neither in other groups nor in new ones, and is not finalized at the end.
void give_up();
[[nodiscard]] bool has_given_up();

}  // namespace rollcall::process_group::mpi
