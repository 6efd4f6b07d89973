#pragma once

#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/bootstrap/trace.h"
#include "runtime/job/job_facts.h"

namespace rollcall::bootstrap {

/// "rank 3 of 8, local rank 1 of 4, node 0 of 2".
[[nodiscard]] std::string describe(const job::JobFacts& facts);

[[nodiscard]] bool same_ranks(const job::JobFacts& a, const job::JobFacts& b);

/// What a launcher's variables and Slurm's have to do with each other.
enum class Kinship {
  Same,     ///< Slurm itself is the launcher (its PMIx server or pmi2 plugin): both describe this process
  Another,  ///< mpirun stands between: Slurm's variables describe the task that started it
  Unknown,  ///< Same where ranks and sizes agree, Another where they do not
};

/// From PMIX_NAMESPACE ("slurm.pmix.JOB.STEP" is Slurm's own) for sources pmix and ompi, and PMI_JOBID ("JOB.STEP" is)
/// for pmi. Pure.
[[nodiscard]] Kinship kinship_with_slurm(const std::string& source, const Environment& environment);

/// One answer from a launcher's (`other`: pmix, ompi or pmi) and Slurm's.
///
/// Same: Slurm's facts, since Slurm alone knows node list, ports and ids, under the launcher's `source`; PMIx's hosts
/// cross-check Slurm's (a warning) and fill in rank 0's host where Slurm's variables hide it. Another rank or size is
/// an error (Mismatch): somebody changed a variable. Another: the launcher is believed, Slurm's entry in `trace`
/// becomes a refusal that says so, and there is a warning unless Slurm's step has one task a node, which is how mpirun
/// starts its daemons. Pure but for `trace`.
[[nodiscard]] Result<job::JobFacts> merge_with_slurm(const job::JobFacts& other, const job::JobFacts& slurm,
                                                     Kinship kinship, std::vector<TraceEntry>& trace);

}  // namespace rollcall::bootstrap
