#pragma once

#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/launchers/launcher.h"
#include "runtime/launchers/pmix.h"

namespace rollcall::step {

struct Gathered {
  job::JobFacts facts;
  std::vector<launchers::TraceEntry> trace;  ///< in the order in which the sources were asked
};

/// Asks the sources for the facts of this process: explicit RANK and WORLD_SIZE → PMIx (where `pmix_or_null` is given)
/// → Open MPI → PMI → Slurm → a single process.
///
/// Explicit means set by the user; values that an enclosing rollcall set are told apart by ROLLCALL_SET and do not
/// count. Where explicit values agree with a launcher's, the launcher's facts are taken: they are richer. Under
/// torchrun (TORCHELASTIC_RUN_ID is set) the explicit values describe torchrun's own workers and are taken as they are.
///
/// Under Slurm's own PMIx server or pmi2 Slurm's node list and ports are taken, with PMIx's hosts as a cross-check.
/// Where mpirun stands between Slurm's task and this process, SLURM_PROCID is that of whoever started mpirun, and is
/// not believed (launched_by()).
///
/// Errors (Mismatch): explicit values contradict a launcher's or each other, Slurm's PMIx contradicts SLURM_PROCID or
/// SLURM_STEP_NUM_TASKS, or values do not parse.
[[nodiscard]] Result<Gathered> gather(const Environment& environment, launchers::PmixClient* pmix_or_null);

/// Whether the user's variables, which contradict the step on this task, do not on its rank 0: ranks of 0 and the
/// step's size, or none.
[[nodiscard]] bool spares_rank_0(const Environment& environment);

/// Who started this process, as a launcher's variables and Slurm's tell together.
enum class Launched {
  BySlurm,    ///< Slurm itself is the launcher (its PMIx server or pmi2 plugin): both describe this process
  ByAnother,  ///< mpirun stands between: Slurm's variables describe the task that started it
  Unknown,    ///< BySlurm where ranks and sizes agree, ByAnother where they do not
};

/// From PMIX_NAMESPACE ("slurm.pmix.JOB.STEP" is Slurm's own) for sources pmix and ompi, and PMI_JOBID ("JOB.STEP" is)
/// for pmi. Pure.
[[nodiscard]] Launched launched_by(const std::string& source, const Environment& environment);

}  // namespace rollcall::step
