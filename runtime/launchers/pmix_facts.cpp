#include "runtime/launchers/pmix.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/job/marker.h"

namespace rollcall::launchers {
namespace {

/// Numbers the nodes in the order of their first ranks, from the host of every rank (10 microseconds each). PMIX_NODEID
/// may start at 1, because mpirun counts its own node even without a rank there. Returns false where a host is unknown.
bool count_nodes(PmixClient& client, job::JobFacts& facts) {
  std::vector<std::string> hosts;
  std::vector<std::uint32_t> tasks;
  std::map<std::string, std::uint32_t> index;
  for (std::uint32_t rank = 0; rank < facts.world_size; ++rank) {
    const Result<std::string> host = client.host_of(rank);
    if (!host) {
      return false;
    }
    const auto [where, is_new] = index.emplace(*host, static_cast<std::uint32_t>(hosts.size()));
    if (is_new) {
      hosts.push_back(*host);
      tasks.push_back(0);
    }
    ++tasks[where->second];
    if (rank == facts.rank) {
      facts.node_rank = where->second;
    }
  }
  facts.num_nodes = static_cast<std::uint32_t>(hosts.size());
  facts.hosts = std::move(hosts);
  facts.tasks_per_node = std::move(tasks);
  return true;
}

}  // namespace

bool is_slurms_namespace(std::string_view name) { return name.starts_with("slurm.pmix."); }

Result<job::JobFacts> facts_from_pmix(PmixClient& client) {
  job::JobFacts facts;
  facts.source = "pmix";
  facts.rank = client.rank();
  const std::pair<PmixFact, std::uint32_t*> wanted[] = {{PmixFact::JobSize, &facts.world_size},
                                                        {PmixFact::LocalRank, &facts.local_rank},
                                                        {PmixFact::LocalSize, &facts.local_world_size},
                                                        {PmixFact::NodeId, &facts.node_rank}};
  for (const auto& [which, where] : wanted) {
    ASSIGN_OR_RETURN(const std::uint32_t number, client.fact(which));
    *where = number;
  }
  const bool sound = facts.rank < facts.world_size && facts.local_rank < facts.local_world_size &&
                     facts.local_world_size <= facts.world_size;
  if (!sound) {
    return fail("PMIx",
                fmt::format("rank {} of {}, local rank {} of {}", facts.rank, facts.world_size, facts.local_rank,
                            facts.local_world_size),
                "is impossible", "reporting it, with the output of srun --mpi=list", ErrorKind::Mismatch);
  }
  // A server may not know hosts: Slurm's variables or the rendezvous provide them.
  if (const Result<std::string> host = client.host_of(facts.rank)) {
    facts.this_host = *host;
  }
  if (const Result<std::string> host = client.host_of(0)) {
    facts.head_host = *host;
  }
  facts.port_salt = job::fnv1a(client.name_space());
  if (!is_slurms_namespace(client.name_space()) && count_nodes(client, facts)) {
    return facts;
  }
  const std::uint32_t at_least = facts.local_world_size < facts.world_size ? 2 : 1;
  facts.num_nodes = std::max(at_least, facts.node_rank + 1);
  return facts;
}

}  // namespace rollcall::launchers
