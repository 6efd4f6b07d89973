#include "runtime/bootstrap/merge.h"

#include <fmt/format.h>

#include "runtime/bootstrap/pmix_facts.h"
#include "runtime/bootstrap/slurm.h"
#include "runtime/contract/env_vars.h"

namespace rollcall::bootstrap {
namespace {

Error contradicts_its_own_server(const job::JobFacts& server, const job::JobFacts& slurm) {
  const bool about_rank = server.world_size == slurm.world_size;
  const std::string name(about_rank ? env::kSlurmProcId : env::kSlurmStepTasks);
  return fail(name, std::to_string(about_rank ? slurm.rank : slurm.world_size),
              fmt::format("contradicts Slurm's own {}, which says {}", server.source,
                          about_rank ? server.rank : server.world_size),
              "leaving SLURM_*, PMIX_* and PMI_* as srun set them", ExitCode::Mismatch);
}

void cross_check(const job::JobFacts& other, job::JobFacts& facts) {
  const auto compare = [&](std::string_view what, const std::string& theirs, const std::string& slurms) {
    if (!theirs.empty() && !slurms.empty() && theirs != slurms) {
      facts.warnings.push_back(
          fmt::format("{}: {} says {}, Slurm {}: Slurm's is used", what, other.source, theirs, slurms));
    }
  };
  compare("this host", other.this_host, facts.this_host);
  if (facts.head_known_to_all) {
    compare("host of rank 0", other.head_host, facts.head_host);
  }
  // PMI launchers leave local ranks to Slurm; what they did not say is a guess.
  if (other.source == "pmix") {
    compare("local rank", std::to_string(other.local_rank), std::to_string(facts.local_rank));
    compare("tasks on this node", std::to_string(other.local_world_size), std::to_string(facts.local_world_size));
  }
}

job::JobFacts with_slurms_nodes(const job::JobFacts& other, const job::JobFacts& slurm) {
  job::JobFacts facts = slurm;
  facts.source = other.source;
  cross_check(other, facts);
  if (!facts.head_known_to_all && !other.head_host.empty()) {
    facts.head_host = other.head_host;
    facts.head_known_to_all = true;
    forget_that_head_was_unknown(facts);
  }
  return facts;
}

job::JobFacts not_slurms_task(const job::JobFacts& other, const job::JobFacts& slurm, std::vector<TraceEntry>& trace) {
  for (TraceEntry& entry : trace) {
    if (entry.source == "slurm") {
      entry.answered = false;
      entry.detail = fmt::format("describes the task that started {}'s launcher: {}", other.source, entry.detail);
    }
  }
  job::JobFacts facts = other;
  facts.restart_count = slurm.restart_count;
  if (facts.this_host.empty()) {
    facts.this_host = slurm.this_host;
  }
  if (facts.num_nodes == 1) {
    facts.head_host = facts.this_host;
  }
  if (slurm.world_size != slurm.num_nodes) {
    facts.warnings.push_back(
        fmt::format("{} says {}, Slurm {}: {} is believed; if each task of srun was to be one rank, start the program "
                    "without mpirun",
                    other.source, describe(other), describe(slurm), other.source));
  }
  return facts;
}

}  // namespace

std::string describe(const job::JobFacts& facts) {
  return fmt::format("rank {} of {}, local rank {} of {}, node {} of {}", facts.rank, facts.world_size,
                     facts.local_rank, facts.local_world_size, facts.node_rank, facts.num_nodes);
}

bool same_ranks(const job::JobFacts& a, const job::JobFacts& b) {
  return a.rank == b.rank && a.world_size == b.world_size;
}

Kinship kinship_with_slurm(const std::string& source, const Environment& environment) {
  if (source == "pmi") {
    const std::string step =
        environment.get(env::kSlurmJobId).value_or("") + "." + environment.get(env::kSlurmStepId).value_or("");
    return environment.get(env::kPmiJobId) == step ? Kinship::Same : Kinship::Unknown;
  }
  const std::string run = environment.get(env::kPmixNamespace).value_or("");
  return is_slurms_namespace(run) ? Kinship::Same : Kinship::Another;
}

Result<job::JobFacts> merge_with_slurm(const job::JobFacts& other, const job::JobFacts& slurm, Kinship kinship,
                                       std::vector<TraceEntry>& trace) {
  // A launcher that says nothing of local ranks has all of them on one node.
  const bool same_node = other.local_world_size == slurm.local_world_size || other.local_world_size == other.world_size;
  const bool agree = same_ranks(other, slurm) && (kinship == Kinship::Same || same_node);
  if (kinship == Kinship::Same && !agree) {
    return contradicts_its_own_server(other, slurm);
  }
  return agree && kinship != Kinship::Another ? with_slurms_nodes(other, slurm) : not_slurms_task(other, slurm, trace);
}

}  // namespace rollcall::bootstrap
