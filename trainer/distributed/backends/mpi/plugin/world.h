#pragma once

#include <mpi.h>
#include <mutex>
#include <string>

#include "runtime/base/result.h"

namespace rollcall::process_group::mpi {

/// Returns the mutex that every call of MPI after begin() holds: MPI is initialised with MPI_THREAD_SERIALIZED only,
/// which all implementations offer and which slows none down. It is held during a wait for other ranks only if all of
/// them are known to arrive: when a communicator is made, and at the end.
[[nodiscard]] std::mutex& mpi_mutex();

/// Returns MPI's own text for an error code.
[[nodiscard]] std::string text_of(int code);

/// Returns the error "--backend: mpi: ..." (Unavailable).
[[nodiscard]] Error failed(const std::string& what, int code);

/// Returns an error (Usage) if there is no sign that an MPI launcher started this process: Open MPI would end it with a
/// page of its own errors.
[[nodiscard]] Result<void> check_launched();

/// Calls MPI_Init_thread(), once a process, and MPI_Finalize() at its end (see finalize_at_exit() in world.cpp). Call
/// it only after check_launched() found no error. Errors: (Unavailable) MPI failed.
[[nodiscard]] Result<void> begin();

/// Records that a group failed: MPI cannot be used any more, in any group, and is not finalized at the end.
void give_up();
[[nodiscard]] bool has_given_up();

}  // namespace rollcall::process_group::mpi
