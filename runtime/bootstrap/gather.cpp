#include "runtime/bootstrap/gather.h"

#include <fmt/format.h>
#include <unistd.h>

#include <optional>

#include "runtime/bootstrap/explicit_environment.h"
#include "runtime/bootstrap/pmix_facts.h"
#include "runtime/bootstrap/slurm.h"
#include "runtime/contract/env_vars.h"

namespace rollcall::bootstrap {
namespace {

std::string describe(const job::JobFacts& facts) {
  return fmt::format("rank {} of {}, local rank {} of {}, node {} of {}", facts.rank, facts.world_size,
                     facts.local_rank, facts.local_world_size, facts.node_rank, facts.num_nodes);
}

bool same_ranks(const job::JobFacts& a, const job::JobFacts& b) {
  return a.rank == b.rank && a.world_size == b.world_size;
}

/// What the sources said, before one is chosen. Absent: it declined; why is in the trace.
struct Answers {
  std::optional<job::JobFacts> environment;
  std::optional<job::JobFacts> pmix;
  std::optional<job::JobFacts> slurm;
};

Result<void> ask_environment(const Environment& environment, Answers& answers, std::vector<TraceEntry>& trace) {
  if (const auto reason = why_not_explicit(environment)) {
    trace.push_back({"environment", false, *reason});
    return {};
  }
  Result<job::JobFacts> facts = facts_from_environment(environment);
  if (!facts) {
    return facts.error();
  }
  trace.push_back({"environment", true, describe(*facts)});
  answers.environment = std::move(*facts);
  return {};
}

void ask_pmix(const Environment& environment, PmixClient* client, Answers& answers, std::vector<TraceEntry>& trace) {
  if (client == nullptr) {
    const bool offered = environment.get_non_empty(env::kPmixNamespace).has_value();
    trace.push_back({"pmix", false, offered ? "was not asked" : "PMIX_NAMESPACE is not set"});
    return;
  }
  Result<job::JobFacts> facts = facts_from_pmix(*client);
  if (!facts) {
    trace.push_back({"pmix", false, facts.error().message()});
    return;
  }
  trace.push_back({"pmix", true, describe(*facts)});
  answers.pmix = std::move(*facts);
}

Result<void> ask_slurm(const Environment& environment, Answers& answers, std::vector<TraceEntry>& trace) {
  if (const auto reason = why_not_a_slurm_task(environment)) {
    trace.push_back({"slurm", false, *reason});
    return {};
  }
  Result<job::JobFacts> facts = facts_from_slurm(environment);
  if (!facts) {
    return facts.error();
  }
  trace.push_back({"slurm", true, describe(*facts)});
  answers.slurm = std::move(*facts);
  return {};
}

Error contradiction(const job::JobFacts& users, const job::JobFacts& other) {
  const bool about_rank = users.world_size == other.world_size;
  const std::string name(about_rank ? env::kRank : env::kWorldSize);
  const std::uint32_t value = about_rank ? users.rank : users.world_size;
  const std::uint32_t theirs = about_rank ? other.rank : other.world_size;
  return fail(name, std::to_string(value), fmt::format("contradicts {}, which says {}", other.source, theirs),
              "unset RANK WORLD_SIZE before srun", ExitCode::Mismatch);
}

/// PMIx's ranks with Slurm's nodes: Slurm alone knows names, ports and ids. Where they disagree, another launcher
/// (mpirun) stands between this process and Slurm's task, and PMIx is right about the ranks.
job::JobFacts merge(const job::JobFacts& pmix, const job::JobFacts& slurm) {
  if (same_ranks(pmix, slurm)) {
    return slurm;
  }
  job::JobFacts facts = pmix;
  facts.job_id = slurm.job_id;
  facts.step_id = slurm.step_id;
  facts.restart_count = slurm.restart_count;
  facts.this_host = slurm.this_host;
  facts.head_host = facts.num_nodes == 1 ? slurm.this_host : "";
  facts.warnings.push_back(fmt::format("PMIx says rank {} of {}, Slurm rank {} of {}: PMIx is believed", pmix.rank,
                                       pmix.world_size, slurm.rank, slurm.world_size));
  return facts;
}

job::JobFacts single_process() {
  job::JobFacts facts;
  facts.source = "single";
  facts.port_salt = static_cast<std::uint32_t>(getpid());
  return facts;
}

Result<job::JobFacts> choose(const Environment& environment, const Answers& answers) {
  std::optional<job::JobFacts> launched = answers.slurm;
  if (answers.pmix) {
    launched = answers.slurm ? merge(*answers.pmix, *answers.slurm) : *answers.pmix;
  }
  if (!answers.environment) {
    return launched ? *launched : single_process();
  }
  const bool under_torchrun = environment.get_non_empty(env::kTorchElasticRunId).has_value();
  if (under_torchrun || !launched) {
    return *answers.environment;
  }
  if (!same_ranks(*answers.environment, *launched)) {
    return contradiction(*answers.environment, *launched);
  }
  return *launched;
}

}  // namespace

Result<Gathered> gather(const Environment& environment, PmixClient* pmix_or_null) {
  Answers answers;
  std::vector<TraceEntry> trace;
  if (const Result<void> asked = ask_environment(environment, answers, trace); !asked) {
    return asked.error();
  }
  ask_pmix(environment, pmix_or_null, answers, trace);
  if (const Result<void> asked = ask_slurm(environment, answers, trace); !asked) {
    return asked.error();
  }
  Result<job::JobFacts> facts = choose(environment, answers);
  if (!facts) {
    return facts.error();
  }
  const bool single = facts->source == "single";
  trace.push_back({"single", single, single ? "one process" : "not needed: " + facts->source + " is believed"});
  return Gathered{std::move(*facts), std::move(trace)};
}

}  // namespace rollcall::bootstrap
