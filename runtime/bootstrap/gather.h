#pragma once

#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/bootstrap/trace.h"
#include "runtime/job/job_facts.h"

namespace rollcall::bootstrap {

class PmixClient;

struct Gathered {
  job::JobFacts facts;
  std::vector<TraceEntry> trace;  ///< in the order in which the sources were asked
};

/// Asks the sources for the facts of this process: explicit RANK and WORLD_SIZE → PMIx (where `pmix_or_null` is given)
/// → Slurm → a single process.
///
/// Explicit means set by the user; values that an enclosing rollcall set are told apart by ROLLCALL_SET and do not
/// count. Where explicit values agree with Slurm's, Slurm's facts are taken: they are richer. Under torchrun
/// (TORCHELASTIC_RUN_ID is set) the explicit values describe torchrun's own workers and are taken as they are.
///
/// Errors (Mismatch): explicit values contradict Slurm's or each other, or do not parse.
[[nodiscard]] Result<Gathered> gather(const Environment& environment, PmixClient* pmix_or_null);

}  // namespace rollcall::bootstrap
