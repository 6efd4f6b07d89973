#include "runtime/bootstrap/gather.h"

#include <fmt/format.h>
#include <unistd.h>

#include <optional>

#include "runtime/bootstrap/explicit_environment.h"
#include "runtime/bootstrap/merge.h"
#include "runtime/bootstrap/ompi.h"
#include "runtime/bootstrap/pmi.h"
#include "runtime/bootstrap/pmix_facts.h"
#include "runtime/bootstrap/slurm.h"
#include "runtime/contract/env_vars.h"

namespace rollcall::bootstrap {
namespace {

/// What the sources said, before one is chosen. Absent: it declined; why is in the trace.
struct Answers {
  std::optional<job::JobFacts> environment;
  std::optional<job::JobFacts> pmix;
  std::optional<job::JobFacts> ompi;
  std::optional<job::JobFacts> pmi;
  std::optional<job::JobFacts> slurm;
};

/// Asks one source that reads variables; `why_not` and `read` are its two functions.
template <typename WhyNot, typename Read>
Result<std::optional<job::JobFacts>> ask(const std::string& source, const Environment& environment, WhyNot why_not,
                                         Read read, std::vector<TraceEntry>& trace) {
  if (const auto reason = why_not(environment)) {
    trace.push_back({source, false, *reason});
    return std::optional<job::JobFacts>();
  }
  Result<job::JobFacts> facts = read(environment);
  if (!facts) {
    return facts.error();
  }
  trace.push_back({source, true, describe(*facts)});
  return std::optional(std::move(*facts));
}

Result<std::optional<job::JobFacts>> ask(const LauncherVariables& launcher, const Environment& environment,
                                         std::vector<TraceEntry>& trace) {
  return ask(
      std::string(launcher.source), environment, [&](const Environment& e) { return why_not_launched_by(launcher, e); },
      [&](const Environment& e) { return facts_from_launcher(launcher, e); }, trace);
}

std::optional<job::JobFacts> ask_pmix(const Environment& environment, PmixClient* client,
                                      std::vector<TraceEntry>& trace) {
  if (client == nullptr) {
    const bool offered = environment.get_non_empty(env::kPmixNamespace).has_value();
    trace.push_back({"pmix", false, offered ? "was not asked" : "PMIX_NAMESPACE is not set"});
    return std::nullopt;
  }
  Result<job::JobFacts> facts = facts_from_pmix(*client);
  if (!facts) {
    trace.push_back({"pmix", false, facts.error().message()});
    return std::nullopt;
  }
  trace.push_back({"pmix", true, describe(*facts)});
  return std::optional(std::move(*facts));
}

/// The first error of a source whose variables are damaged, in the order of asking.
Result<void> ask_all(const Environment& environment, PmixClient* pmix, Answers& answers,
                     std::vector<TraceEntry>& trace) {
  const auto keep = [](Result<std::optional<job::JobFacts>> asked, std::optional<job::JobFacts>& where) {
    if (!asked) {
      return Result<void>(asked.error());
    }
    where = std::move(*asked);
    return Result<void>();
  };
  if (Result<void> kept =
          keep(ask("environment", environment, why_not_explicit, facts_from_environment, trace), answers.environment);
      !kept) {
    return kept;
  }
  answers.pmix = ask_pmix(environment, pmix, trace);
  if (kinship_with_slurm("ompi", environment) == Kinship::Same) {
    trace.push_back({"ompi", false, "PMIX_NAMESPACE is Slurm's: no mpirun started this process"});
  } else if (Result<void> kept = keep(ask(kOmpi, environment, trace), answers.ompi); !kept) {
    return kept;
  }
  if (Result<void> kept = keep(ask(kPmi, environment, trace), answers.pmi); !kept) {
    return kept;
  }
  return keep(ask("slurm", environment, why_not_a_slurm_task, facts_from_slurm, trace), answers.slurm);
}

Error contradiction(const job::JobFacts& users, const job::JobFacts& other) {
  const bool about_rank = users.world_size == other.world_size;
  const std::string name(about_rank ? env::kRank : env::kWorldSize);
  const std::uint32_t value = about_rank ? users.rank : users.world_size;
  const std::uint32_t theirs = about_rank ? other.rank : other.world_size;
  return fail(name, std::to_string(value), fmt::format("contradicts {}, which says {}", other.source, theirs),
              "unset RANK WORLD_SIZE before srun", ExitCode::Mismatch);
}

job::JobFacts single_process() {
  job::JobFacts facts;
  facts.source = "single";
  facts.port_salt = static_cast<std::uint32_t>(getpid());
  return facts;
}

/// The answer that counts besides the user's: of the launchers the first one asked, with what Slurm knows more.
Result<std::optional<job::JobFacts>> launched(const Environment& environment, const Answers& answers,
                                              std::vector<TraceEntry>& trace) {
  for (const auto* answer : {&answers.pmix, &answers.ompi, &answers.pmi}) {
    if (answer->has_value()) {
      const Kinship kinship = kinship_with_slurm((*answer)->source, environment);
      Result<job::JobFacts> merged =
          answers.slurm ? merge_with_slurm(**answer, *answers.slurm, kinship, trace) : Result<job::JobFacts>(**answer);
      return merged ? Result(std::optional(std::move(*merged))) : merged.error();
    }
  }
  return answers.slurm;
}

Result<job::JobFacts> choose(const Environment& environment, const Answers& answers, std::vector<TraceEntry>& trace) {
  const bool under_torchrun = environment.get_non_empty(env::kTorchElasticRunId).has_value();
  if (answers.environment && under_torchrun) {
    return *answers.environment;
  }
  Result<std::optional<job::JobFacts>> launcher = launched(environment, answers, trace);
  if (!launcher) {
    return launcher.error();
  }
  if (!*launcher) {
    return answers.environment ? *answers.environment : single_process();
  }
  if (answers.environment && !same_ranks(*answers.environment, **launcher)) {
    return contradiction(*answers.environment, **launcher);
  }
  return **launcher;
}

}  // namespace

Result<Gathered> gather(const Environment& environment, PmixClient* pmix_or_null) {
  Answers answers;
  std::vector<TraceEntry> trace;
  if (const Result<void> asked = ask_all(environment, pmix_or_null, answers, trace); !asked) {
    return asked.error();
  }
  Result<job::JobFacts> facts = choose(environment, answers, trace);
  if (!facts) {
    return facts.error();
  }
  const bool single = facts->source == "single";
  trace.push_back({"single", single, single ? "one process" : "not needed: " + facts->source + " is believed"});
  return Gathered{std::move(*facts), std::move(trace)};
}

}  // namespace rollcall::bootstrap
