#pragma once

#include <mpi.h>
#include <cstddef>
#include <optional>

#include "runtime/base/result.h"
#include "trainer/distributed/algorithms/elements.h"

namespace rollcall::process_group::mpi {

/// An MPI type of that size, for elements that are only moved; nothing for sizes other than 1, 2, 4, 8 and 16.
[[nodiscard]] std::optional<MPI_Datatype> movable_type(std::size_t element_bytes);

/// How elements are combined. MPI's own operations where MPI knows the type; operations of ours, which call
/// combine_function(), for half precision and bools.
struct Reducing {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op operation = MPI_OP_NULL;
};

/// Call with mpi_mutex() held. An operation of ours is made once and lives as long as the process. Errors: MPI's.
[[nodiscard]] Result<Reducing> reducing(ElementType element, Reduction reduction);

}  // namespace rollcall::process_group::mpi
