#include "runtime/bootstrap/pmix_facts.h"

#include <fmt/format.h>

#include <algorithm>

namespace rollcall::bootstrap {

Result<job::JobFacts> facts_from_pmix(PmixClient& client) {
  job::JobFacts facts;
  facts.source = "pmix";
  facts.rank = client.rank();
  const std::pair<PmixFact, std::uint32_t*> wanted[] = {{PmixFact::JobSize, &facts.world_size},
                                                        {PmixFact::LocalRank, &facts.local_rank},
                                                        {PmixFact::LocalSize, &facts.local_world_size},
                                                        {PmixFact::NodeId, &facts.node_rank}};
  for (const auto& [which, where] : wanted) {
    const Result<std::uint32_t> number = client.fact(which);
    if (!number) {
      return number.error();
    }
    *where = *number;
  }
  const bool sound = facts.rank < facts.world_size && facts.local_rank < facts.local_world_size &&
                     facts.local_world_size <= facts.world_size;
  if (!sound) {
    return fail("PMIx",
                fmt::format("rank {} of {}, local rank {} of {}", facts.rank, facts.world_size, facts.local_rank,
                            facts.local_world_size),
                "is impossible", "reporting it, with srun --mpi=list", ExitCode::Mismatch);
  }
  const std::uint32_t at_least = facts.local_world_size < facts.world_size ? 2 : 1;
  facts.num_nodes = std::max(at_least, facts.node_rank + 1);
  return facts;
}

}  // namespace rollcall::bootstrap
