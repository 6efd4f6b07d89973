#pragma once

#include "runtime/base/result.h"
#include "runtime/bootstrap/pmix_client.h"
#include "runtime/job/job_facts.h"

namespace rollcall::bootstrap {

/// The facts that PMIx knows: rank, sizes, local rank, node rank; `source` is "pmix". Nodes and hosts stay unknown (a
/// world that does not fit one node has num_nodes 2 or more, as node_rank and sizes tell at least).
/// Errors (Unavailable): the server does not answer; (Mismatch): its answers contradict each other.
[[nodiscard]] Result<job::JobFacts> facts_from_pmix(PmixClient& client);

}  // namespace rollcall::bootstrap
