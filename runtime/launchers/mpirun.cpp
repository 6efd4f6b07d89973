#include "runtime/base/text.h"
#include "runtime/launchers/launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/contract/env_vars.h"
#include "runtime/job/marker.h"

namespace rollcall::launchers {
namespace {

/// The variables in which an MPI launcher passes ranks to a process. Of two names, the first one that is set is used;
/// an empty name is skipped.
struct LauncherVariables {
  std::string_view source;    ///< JobFacts::source: "ompi"
  std::string_view launcher;  ///< the launcher in messages: "Open MPI's mpirun"
  std::string_view rank;
  std::string_view size;
  std::array<std::string_view, 2> local_rank;
  std::array<std::string_view, 2> local_size;
  std::array<std::string_view, 2> run;  ///< the run's id, which all of its ranks share
};

/// The variables of Open MPI's mpirun 4.x (ORTE) and 5.x (PRRTE): mpirun(1), "Exported Environment Variables".
/// OMPI_COMM_WORLD_NODE_RANK is a rank on the node, not the node's index, so that it is not used.
constexpr LauncherVariables kOmpiVariables{
    .source = "ompi",
    .launcher = "Open MPI's mpirun",
    .rank = env::kOmpiRank,
    .size = "OMPI_COMM_WORLD_SIZE",
    .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK", ""},
    .local_size = {"OMPI_COMM_WORLD_LOCAL_SIZE", ""},
    .run = {env::kPmixNamespace, "OMPI_MCA_ess_base_jobid"},
};

/// The variables of launchers with PMI-1 or PMI-2: MPICH's hydra and Intel MPI (which add MPI_LOCALRANKID and
/// MPI_LOCALNRANKS), Slurm's pmi2 plugin (which adds PMI_JOBID and no local ranks), and Cray's PALS (which adds
/// PMI_LOCAL_RANK and PMI_LOCAL_SIZE).
constexpr LauncherVariables kPmiVariables{
    .source = "pmi",
    .launcher = "the PMI launcher (mpiexec)",
    .rank = "PMI_RANK",
    .size = "PMI_SIZE",
    .local_rank = {env::kHydraLocalRank, "PMI_LOCAL_RANK"},
    .local_size = {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"},
    .run = {env::kPmiJobId, "PMI_KVSNAME"},
};

std::string_view first_set(const std::array<std::string_view, 2>& names, const Environment& environment) {
  const auto found =
      std::ranges::find_if(names, [&](std::string_view name) { return environment.get_non_empty(name).has_value(); });
  return found == names.end() ? "" : *found;
}

Result<void> check_range(const LauncherVariables& launcher, const job::JobFacts& facts) {
  const std::string who(launcher.launcher);
  if (facts.rank >= facts.world_size) {
    return damaged_variable(launcher.rank, std::to_string(facts.rank),
                            fmt::format("must be below {} {}", launcher.size, facts.world_size), who);
  }
  const bool sound = facts.local_world_size <= facts.world_size && facts.local_rank < facts.local_world_size;
  if (!sound) {
    return damaged_variable(
        launcher.local_rank.front(), std::to_string(facts.local_rank),
        fmt::format("does not fit a local size of {} and a world size of {}", facts.local_world_size, facts.world_size),
        who);
  }
  return {};
}

void guess_node(const LauncherVariables& launcher, job::JobFacts& facts) {
  if (facts.local_world_size == facts.world_size) {
    return;
  }
  facts.num_nodes = (facts.world_size + facts.local_world_size - 1) / facts.local_world_size;
  facts.node_rank = std::min(facts.rank / facts.local_world_size, facts.num_nodes - 1);
  facts.warnings.push_back(fmt::format("{}: does not name this node; assuming node {} of {}, from the ranks",
                                       launcher.launcher, facts.node_rank, facts.num_nodes));
}

std::optional<std::string> why_not_launched_by(const LauncherVariables& launcher, const Environment& environment) {
  for (const std::string_view name : {launcher.rank, launcher.size}) {
    if (!environment.get_non_empty(name)) {
      return fmt::format("{} is not set", name);
    }
  }
  return std::nullopt;
}

Result<job::JobFacts> facts_from_launcher(const LauncherVariables& launcher, const Environment& environment) {
  Numbers numbers(environment, std::string(launcher.launcher));
  job::JobFacts facts;
  facts.source = launcher.source;
  facts.rank = numbers.required(launcher.rank);
  facts.world_size = numbers.required(launcher.size);
  facts.local_world_size = numbers.optional(first_set(launcher.local_size, environment)).value_or(facts.world_size);
  facts.local_rank = numbers.optional(first_set(launcher.local_rank, environment))
                         .value_or(facts.local_world_size > 0 ? facts.rank % facts.local_world_size : 0);
  if (numbers.error()) {
    return *numbers.error();
  }
  RETURN_IF_ERROR(check_range(launcher, facts));
  if (const auto run = environment.get_non_empty(first_set(launcher.run, environment))) {
    facts.port_salt = job::fnv1a(*run);
  }
  guess_node(launcher, facts);
  return facts;
}

}  // namespace

std::optional<std::string> why_not_ompi(const Environment& environment) {
  return why_not_launched_by(kOmpiVariables, environment);
}

Result<job::JobFacts> facts_from_ompi(const Environment& environment) {
  return facts_from_launcher(kOmpiVariables, environment);
}

std::optional<std::string> why_not_pmi(const Environment& environment) {
  return why_not_launched_by(kPmiVariables, environment);
}

Result<job::JobFacts> facts_from_pmi(const Environment& environment) {
  return facts_from_launcher(kPmiVariables, environment);
}

}  // namespace rollcall::launchers
