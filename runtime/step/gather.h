#pragma once

#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/launchers/launcher.h"
#include "runtime/launchers/pmix.h"

namespace rollcall::step {

/// The facts of this process, and the answers of all sources.
struct Gathered {
  job::JobFacts facts;
  std::vector<launchers::TraceEntry> trace;  ///< in the order in which the sources were asked
};

/// Asks the sources for the facts of this process: explicit RANK and WORLD_SIZE → PMIx (where `pmix_or_null` is given)
/// → Open MPI → PMI → Slurm → a single process.
///
/// Explicit values are those that the user set. Values of an enclosing rollcall, which ROLLCALL_SET names, do not
/// count. Where explicit values agree with a launcher's, the launcher's facts are used, because they are more complete.
/// Under torchrun (TORCHELASTIC_RUN_ID is set) the explicit values describe torchrun's workers and are used as they
/// are.
///
/// Under Slurm's own PMIx server or pmi2, Slurm's node list and ports are used, and compared with PMIx's hosts. Where
/// mpirun runs between Slurm's task and this process, SLURM_PROCID belongs to the task that started mpirun and is not
/// used (launched_by()).
///
/// Errors (Mismatch): explicit values contradict a launcher's or each other, Slurm's PMIx contradicts SLURM_PROCID or
/// SLURM_STEP_NUM_TASKS, or values do not parse.
[[nodiscard]] Result<Gathered> gather(const Environment& environment, launchers::PmixClient* pmix_or_null);

/// Returns whether the user's variables, which contradict the step on this task, are right on its rank 0: ranks of 0
/// and the step's size, or unset.
[[nodiscard]] bool rank_0_agrees(const Environment& environment);

/// What started this process, according to a launcher's variables and Slurm's.
enum class Launched {
  BySlurm,    ///< Slurm is the launcher (its PMIx server or pmi2 plugin): both sets of variables describe this process
  ByAnother,  ///< mpirun is the launcher: Slurm's variables describe the task that started mpirun
  Unknown,    ///< BySlurm where ranks and sizes agree, otherwise ByAnother
};

/// Decides by PMIX_NAMESPACE (Slurm's own is "slurm.pmix.JOB.STEP") for the sources pmix and ompi, and by PMI_JOBID
/// (Slurm's own is "JOB.STEP") for pmi; gather() takes another rank or size than Slurm's, with MPI_LOCALRANKID, for
/// Unknown there. Pure.
[[nodiscard]] Launched launched_by(const std::string& source, const Environment& environment);

}  // namespace rollcall::step
