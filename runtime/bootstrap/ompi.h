#pragma once

#include "runtime/bootstrap/launcher_variables.h"
#include "runtime/contract/env_vars.h"

namespace rollcall::bootstrap {

/// What Open MPI's mpirun sets, 4.x (ORTE) and 5.x (PRRTE) alike (mpirun(1), "Exported Environment Variables"). Its
/// OMPI_COMM_WORLD_NODE_RANK is a rank on the node, not the node's index: it is of no use here.
inline constexpr LauncherVariables kOmpi{
    .source = "ompi",
    .launcher = "Open MPI's mpirun",
    .rank = env::kOmpiRank,
    .size = env::kOmpiSize,
    .local_rank = {env::kOmpiLocalRank, ""},
    .local_size = {env::kOmpiLocalSize, ""},
    .run = {env::kPmixNamespace, env::kOmpiJobId},
};

}  // namespace rollcall::bootstrap
