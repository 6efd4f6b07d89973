#include "runtime/step/gather.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <optional>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/launchers/slurm.h"

namespace rollcall::step {
namespace {

using launchers::Launcher;
using launchers::PmixClient;
using launchers::TraceEntry;

/// The facts from each source, before one is chosen. Unset where a source has none; the trace says why.
struct Answers {
  std::optional<job::JobFacts> environment;
  std::optional<job::JobFacts> pmix;
  std::optional<job::JobFacts> ompi;
  std::optional<job::JobFacts> pmi;
  std::optional<job::JobFacts> slurm;
};

std::string describe(const job::JobFacts& facts) {
  return fmt::format("rank {} of {}, local rank {} of {}, node {} of {}", facts.rank, facts.world_size,
                     facts.local_rank, facts.local_world_size, facts.node_rank, facts.num_nodes);
}

bool same_ranks(const job::JobFacts& a, const job::JobFacts& b) {
  return a.rank == b.rank && a.world_size == b.world_size;
}

Result<std::optional<job::JobFacts>> ask(const Launcher& launcher, const Environment& environment,
                                         std::vector<TraceEntry>& trace) {
  const std::string source(launcher.source);
  if (const auto reason = launcher.why_not(environment)) {
    trace.push_back({source, false, *reason});
    return std::optional<job::JobFacts>();
  }
  ASSIGN_OR_RETURN(job::JobFacts facts, launcher.facts(environment));
  trace.push_back({source, true, describe(facts)});
  return std::optional(std::move(facts));
}

std::optional<job::JobFacts> ask_pmix(const Environment& environment, PmixClient* client,
                                      std::vector<TraceEntry>& trace) {
  if (client == nullptr) {
    const bool offered = environment.get_non_empty(env::kPmixNamespace).has_value();
    trace.push_back({"pmix", false, offered ? "was not asked" : "PMIX_NAMESPACE is not set"});
    return std::nullopt;
  }
  Result<job::JobFacts> facts = launchers::facts_from_pmix(*client);
  if (!facts) {
    trace.push_back({"pmix", false, facts.error().text()});
    return std::nullopt;
  }
  trace.push_back({"pmix", true, describe(*facts)});
  return std::optional(std::move(*facts));
}

/// Asks all sources in order. Returns the first error of a source whose variables are invalid.
Result<void> ask_all(const Environment& environment, PmixClient* pmix, Answers& answers,
                     std::vector<TraceEntry>& trace) {
  const auto keep = [&](const Launcher& launcher, std::optional<job::JobFacts>& where) {
    Result<std::optional<job::JobFacts>> asked = ask(launcher, environment, trace);
    if (!asked) {
      return Result<void>(asked.error());
    }
    where = std::move(*asked);
    return Result<void>();
  };
  RETURN_IF_ERROR(keep(launchers::kExplicit, answers.environment));
  answers.pmix = ask_pmix(environment, pmix, trace);
  if (launched_by("ompi", environment) == Launched::BySlurm) {
    trace.push_back({"ompi", false, "PMIX_NAMESPACE belongs to Slurm, so mpirun did not start this process"});
  } else if (Result<void> kept = keep(launchers::kOmpi, answers.ompi); !kept) {
    return kept;
  }
  RETURN_IF_ERROR(keep(launchers::kPmi, answers.pmi));
  return keep(launchers::kSlurm, answers.slurm);
}

Error contradiction(const job::JobFacts& users, const job::JobFacts& other) {
  const bool about_rank = users.world_size == other.world_size;
  const std::string name(about_rank ? env::kRank : env::kWorldSize);
  const std::uint32_t value = about_rank ? users.rank : users.world_size;
  const std::uint32_t theirs = about_rank ? other.rank : other.world_size;
  return fail(name, std::to_string(value),
              fmt::format("{} is {} according to {}", about_rank ? "this task's rank" : "the number of ranks", theirs,
                          job::launcher_name(other.source)),
              "unsetting RANK and WORLD_SIZE before srun", ErrorKind::Mismatch);
}

job::JobFacts single_process(const Environment& environment) {
  job::JobFacts facts;
  facts.source = "single";
  facts.enclosing_job = parse_integer<std::uint32_t>(environment.get(env::kSlurmJobId).value_or(""));
  facts.port_salt = static_cast<std::uint32_t>(getpid());
  const auto nodes = parse_integer<std::uint32_t>(environment.get("SLURM_JOB_NUM_NODES").value_or(""));
  if (nodes.value_or(1) > 1) {
    facts.warnings.push_back(fmt::format(
        "SLURM_JOB_NUM_NODES: {}: srun did not start this process, so it is the only rank and the other nodes stay "
        "idle; try srun --ddp, or srun alone where it does not have that option",
        *nodes));
  }
  return facts;
}

Error contradicts_its_own_server(const job::JobFacts& server, const job::JobFacts& slurm) {
  const bool about_rank = server.world_size == slurm.world_size;
  const std::string name(about_rank ? env::kSlurmProcId : env::kSlurmStepTasks);
  return fail(name, std::to_string(about_rank ? slurm.rank : slurm.world_size),
              fmt::format("is {} according to Slurm's own {}", about_rank ? server.rank : server.world_size,
                          server.source == "pmi" ? "PMI" : "PMIx"),
              "leaving SLURM_*, PMIX_* and PMI_* as srun set them", ErrorKind::Mismatch);
}

void cross_check(const job::JobFacts& other, job::JobFacts& facts) {
  const auto compare = [&](std::string_view what, const std::string& theirs, const std::string& slurms) {
    if (!theirs.empty() && !slurms.empty() && theirs != slurms) {
      facts.warnings.push_back(fmt::format("{}: is {} according to {} and {} according to Slurm; Slurm's value is used",
                                           what, theirs, job::launcher_name(other.source), slurms));
    }
  };
  compare("this host", other.this_host, facts.this_host);
  if (facts.head_known_to_all) {
    compare("host of rank 0", other.head_host, facts.head_host);
  }
  // PMI launchers leave local ranks to Slurm, so that theirs may be a guess.
  if (other.source == "pmix") {
    compare("local rank", std::to_string(other.local_rank), std::to_string(facts.local_rank));
    compare("tasks on this node", std::to_string(other.local_world_size), std::to_string(facts.local_world_size));
  }
}

job::JobFacts with_slurms_nodes(const job::JobFacts& other, const job::JobFacts& slurm, Launched launched) {
  job::JobFacts facts = slurm;
  facts.source = other.source;
  facts.is_slurms_step = launched == Launched::BySlurm;
  facts.port_salt = other.port_salt;
  cross_check(other, facts);
  if (!facts.head_known_to_all && !other.head_host.empty()) {
    facts.head_host = other.head_host;
    facts.head_known_to_all = true;
    launchers::forget_that_head_was_unknown(facts);
  }
  return facts;
}

job::JobFacts not_slurms_task(const job::JobFacts& other, const job::JobFacts& slurm, std::vector<TraceEntry>& trace) {
  for (TraceEntry& entry : trace) {
    if (entry.source == "slurm") {
      entry.answered = false;
      entry.detail = fmt::format("describes the task that started mpirun: {}", entry.detail);
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
        fmt::format("{}: this process is {}, but {} according to Slurm; Slurm's values are ignored; try starting the "
                    "program without mpirun if each task of srun is one rank",
                    job::launcher_name(other.source), describe(other), describe(slurm)));
  }
  return facts;
}

/// Merges the facts of a launcher (`other`: pmix, ompi or pmi) with Slurm's.
///
/// BySlurm: returns Slurm's facts with the launcher's `source`, because only Slurm knows node list, ports and ids.
/// PMIx's hosts are compared with Slurm's (a difference is a warning), and PMIx provides rank 0's host where Slurm's
/// variables do not. Different ranks or sizes are an error (Mismatch): a variable was changed. ByAnother: returns the
/// launcher's facts, marks Slurm's entry in `trace` as not answered, and warns unless Slurm's step has one task per
/// node, as mpirun starts its daemons. Pure except for `trace`.
Result<job::JobFacts> merge_with_slurm(const job::JobFacts& other, const job::JobFacts& slurm, Launched launched,
                                       std::vector<TraceEntry>& trace) {
  // Without local ranks, a launcher's ranks are assumed to be on one node.
  const bool same_node = other.local_world_size == slurm.local_world_size || other.local_world_size == other.world_size;
  const bool agree = same_ranks(other, slurm) && (launched == Launched::BySlurm || same_node);
  if (launched == Launched::BySlurm && !agree) {
    return contradicts_its_own_server(other, slurm);
  }
  return agree && launched != Launched::ByAnother ? with_slurms_nodes(other, slurm, launched)
                                                  : not_slurms_task(other, slurm, trace);
}

/// Returns whether this is a rank of an mpiexec whose proxy is a task under Slurm's pmi2: it has hydra's local rank,
/// and another rank or size than the task. Either alone is a variable that was left over or changed.
bool is_below_pmi2(const job::JobFacts& other, const job::JobFacts& slurm, const Environment& environment) {
  return other.source == "pmi" && environment.get_non_empty(env::kHydraLocalRank) && !same_ranks(other, slurm);
}

/// Returns the facts of the first launcher that answered, merged with Slurm's; without launchers, Slurm's facts.
Result<std::optional<job::JobFacts>> answer_of_launchers(const Environment& environment, const Answers& answers,
                                                         std::vector<TraceEntry>& trace) {
  for (const auto* answer : {&answers.pmix, &answers.ompi, &answers.pmi}) {
    if (answer->has_value() && answers.slurm) {
      const bool is_hydras = is_below_pmi2(**answer, *answers.slurm, environment);
      const Launched by = is_hydras ? Launched::Unknown : launched_by((*answer)->source, environment);
      ASSIGN_OR_RETURN(job::JobFacts merged, merge_with_slurm(**answer, *answers.slurm, by, trace));
      return std::optional(std::move(merged));
    }
    if (answer->has_value()) {
      return *answer;
    }
  }
  return answers.slurm;
}

Result<job::JobFacts> choose(const Environment& environment, const Answers& answers, std::vector<TraceEntry>& trace) {
  const bool under_torchrun = environment.get_non_empty(env::kTorchElasticRunId).has_value();
  if (answers.environment && under_torchrun) {
    return *answers.environment;
  }
  ASSIGN_OR_RETURN(std::optional<job::JobFacts> launcher, answer_of_launchers(environment, answers, trace));
  if (!launcher) {
    return answers.environment ? *answers.environment : single_process(environment);
  }
  if (answers.environment && !same_ranks(*answers.environment, *launcher)) {
    return contradiction(*answers.environment, *launcher);
  }
  return *launcher;
}

}  // namespace

Launched launched_by(const std::string& source, const Environment& environment) {
  if (source == "pmi") {
    const std::string step =
        environment.get(env::kSlurmJobId).value_or("") + "." + environment.get(env::kSlurmStepId).value_or("");
    return environment.get(env::kPmiJobId) == step ? Launched::BySlurm : Launched::Unknown;
  }
  const std::string run = environment.get(env::kPmixNamespace).value_or("");
  return launchers::is_slurms_namespace(run) ? Launched::BySlurm : Launched::ByAnother;
}

Result<Gathered> gather(const Environment& environment, launchers::PmixClient* pmix_or_null) {
  Answers answers;
  std::vector<TraceEntry> trace;
  RETURN_IF_ERROR(ask_all(environment, pmix_or_null, answers, trace));
  ASSIGN_OR_RETURN(job::JobFacts facts, choose(environment, answers, trace));
  const bool single = facts.source == "single";
  trace.push_back({"single", single,
                   single ? std::string(job::kNoLauncher)
                          : fmt::format("not needed: {} has the ranks", job::launcher_name(facts.source))});
  return Gathered{std::move(facts), std::move(trace)};
}

bool rank_0_agrees(const Environment& environment) {
  Environment without = environment;
  for (const std::string_view rank : {env::kRank, env::kLocalRank, env::kNodeRank, env::kGroupRank}) {
    if (environment.get(rank).value_or("0") != "0") {
      return false;
    }
    without.unset(rank);
  }
  without.unset(env::kWorldSize);
  const Result<Gathered> step = gather(without, nullptr);
  const std::optional<std::string> users = environment.get(env::kWorldSize);
  return step && (!users || *users == std::to_string(step->facts.world_size));
}

}  // namespace rollcall::step
