#pragma once

#include "runtime/bootstrap/launcher_variables.h"
#include "runtime/contract/env_vars.h"

namespace rollcall::bootstrap {

/// What launchers that speak PMI-1 or PMI-2 set: MPICH's hydra and Intel MPI (which add MPI_LOCALRANKID and
/// MPI_LOCALNRANKS), Slurm's pmi2 plugin (which adds PMI_JOBID and leaves local ranks to Slurm's own variables), Cray's
/// PALS (which adds PMI_LOCAL_RANK and PMI_LOCAL_SIZE).
inline constexpr LauncherVariables kPmi{
    .source = "pmi",
    .launcher = "the PMI launcher (mpiexec)",
    .rank = env::kPmiRank,
    .size = env::kPmiSize,
    .local_rank = {env::kPmiLocalRankId, env::kPmiLocalRank},
    .local_size = {env::kPmiLocalRanks, env::kPmiLocalSize},
    .run = {env::kPmiJobId, env::kPmiKvsName},
};

}  // namespace rollcall::bootstrap
