#pragma once

#include <string_view>

#include "runtime/base/result.h"
#include "runtime/bootstrap/pmix_client.h"
#include "runtime/job/job_facts.h"

namespace rollcall::bootstrap {

/// The facts that PMIx knows: rank, sizes, local rank, node rank, this host and rank 0's; `source` is "pmix". The node
/// list is mpirun's (nodes in the order of their first rank); under Slurm, whose own variables tell it, it stays
/// unknown (a world that does not fit one node has num_nodes 2 or more, as node_rank and sizes tell at least).
/// `port_salt` is the same in all ranks: a hash of the namespace. Errors (Unavailable): the server does not answer;
/// (Mismatch): its answers contradict each other.
[[nodiscard]] Result<job::JobFacts> facts_from_pmix(PmixClient& client);

/// Whether PMIX_NAMESPACE is of Slurm's own PMIx server ("slurm.pmix.JOB.STEP") and not of an mpirun inside. Pure.
[[nodiscard]] bool is_slurms_namespace(std::string_view name);

}  // namespace rollcall::bootstrap
