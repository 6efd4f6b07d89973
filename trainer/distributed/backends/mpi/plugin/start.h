#pragma once

#include <mpi.h>
#include <string>
#include <vector>

#include "trainer/distributed/backends/engine/engine.h"

namespace rollcall::process_group::mpi {

/// What MPI was asked to do. Stays where it is until the request is complete.
struct Started {
  MPI_Request request = MPI_REQUEST_NULL;  ///< complete at once
  std::string refusal;                     ///< why it was not begun; empty: it was
  std::vector<int> counts;                 ///< of an all-to-all; MPI reads them until the end
};

/// Begins `collective` on `communicator` by MPI's own non-blocking one. Call with mpi_mutex() held, in the same order
/// on all ranks. Refused: a part of more than 2^31 - 1 elements, the most that MPI counts.
void start(const Collective& collective, MPI_Comm communicator, Started& started);

/// Begins a message likewise; of at most 2^31 - 1 bytes.
void start(const PointToPoint& message, MPI_Comm communicator, Started& started);

}  // namespace rollcall::process_group::mpi
