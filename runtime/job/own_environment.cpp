#include "runtime/job/own_environment.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/node_list.h"

namespace rollcall::job {
namespace {

/// SLURM_STEP_ID in a batch script under Slurm 26.05 (SLURM_BATCH_SCRIPT in slurm.h, as an unsigned number).
constexpr std::string_view kBatchStep = "4294967291";
/// The smallest id of a special step: interactive, batch, extern (slurm.h). Slurm 26.05 writes these as negative
/// numbers.
constexpr std::uint32_t kFirstSpecialStep = 0xfffffffa;
/// The prefix of the namespaces of Slurm's PMIx server, before JOB.STEP.
constexpr std::string_view kSlurmsNamespace = "slurm.pmix.";

std::optional<std::uint32_t> number(const Environment& environment, std::string_view name) {
  return parse_integer<std::uint32_t>(environment.get(name).value_or(""));
}

void drop(Environment& environment, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    environment.unset(name);
  }
}

void drop_prefix(Environment& environment, std::string_view prefix) {
  const Environment before = environment;
  for (const auto& [name, value] : before.variables()) {
    if (name.starts_with(prefix)) {
      environment.unset(name);
    }
  }
}

/// Returns whether `job` is the environment's job, or one of its components if it is a het job.
bool is_this_job(const Environment& environment, std::uint32_t job) {
  const auto own = number(environment, env::kSlurmJobId);
  const std::uint32_t components = std::max(number(environment, env::kSlurmHetSize).value_or(1), 1U);
  return own && job >= *own && job - *own < components;
}

bool fits_nodes_of_job(const Environment& environment) {
  const auto of_step = expand_node_list(environment.get(env::kSlurmStepNodeList).value_or(""));
  const auto of_job = expand_node_list(environment.get("SLURM_JOB_NODELIST").value_or(""));
  if (!of_step || !of_job || of_job->empty() || environment.get(env::kSlurmHetSize)) {
    return true;  // cannot be compared; in a het job either list may be one component's
  }
  const std::set<std::string> nodes(of_job->begin(), of_job->end());
  const auto here = environment.get_non_empty(env::kSlurmNodeName);
  return std::ranges::all_of(*of_step, [&](const std::string& node) { return nodes.contains(node); }) &&
         (!here || std::ranges::find(*of_step, *here) != of_step->end());
}

bool has_values_of_another_step(const Environment& environment, const std::optional<StepOfProcess>& own) {
  if (own) {
    return !is_this_job(environment, own->job) || environment.get(env::kSlurmStepId) != own->step;
  }
  return !fits_nodes_of_job(environment);
}

/// Returns whether a variable that Slurm sets to "slurm.pmix.JOB.STEP" or "JOB.STEP" names another step.
bool names_another_step(const Environment& environment, std::string_view name) {
  const std::string value = environment.get(name).value_or("");
  const auto named =
      parse_step_name(value.starts_with(kSlurmsNamespace) ? value.substr(kSlurmsNamespace.size()) : value);
  return named && (!is_this_job(environment, named->job) || environment.get(env::kSlurmStepId) != named->step);
}

void drop_step(Environment& environment, const std::optional<StepOfProcess>& own) {
  const bool of_this_job = own && is_this_job(environment, own->job);
  const auto id = environment.get(env::kSlurmStepId);
  const bool ordinary = number(environment, env::kSlurmStepId).value_or(kFirstSpecialStep) < kFirstSpecialStep;
  drop_prefix(environment, "SLURM_STEP");
  if (of_this_job && id) {
    environment.set(std::string(env::kSlurmStepId), ordinary ? std::string(kBatchStep) : *id);
  } else if (own && !of_this_job) {  // salloc's shell, for which Slurm sets none of these
    drop(environment, {env::kSlurmProcId, env::kSlurmLocalId, env::kSlurmNodeId, env::kSlurmNodeName,
                       env::kSlurmJobEndTime, env::kSlurmCpusOnNode});
  }
}

/// The variables that a launcher sets for its ranks. They do not name a job, so that their owner is unknown.
struct Launcher {
  std::string_view sign;                    ///< a variable that all of its ranks have
  std::span<const std::string_view> names;  ///< names, or prefixes that end with '_'
};

constexpr std::array<std::string_view, 10> kTorchruns{
    "TORCHELASTIC_",      "ROLE_",         env::kRank,           env::kWorldSize,  env::kLocalRank,
    env::kLocalWorldSize, env::kGroupRank, env::kGroupWorldSize, env::kMasterAddr, env::kMasterPort};
constexpr std::array<std::string_view, 2> kMpiruns{"OMPI_COMM_WORLD_", "PMIX_"};
// Not every PMI_*: MPI_Init needs those of Slurm's plugins.
constexpr std::array<std::string_view, 7> kHydras{"PMI_RANK", "PMI_SIZE",           "PMI_FD",         "PMI_PORT",
                                                  "PMI_ID",   env::kHydraLocalRank, "MPI_LOCALNRANKS"};
constexpr std::array kLaunchers{Launcher{env::kTorchElasticRunId, kTorchruns}, Launcher{env::kOmpiRank, kMpiruns},
                                Launcher{env::kHydraLocalRank, kHydras}};

bool is_set_by(const Launcher& launcher, const std::string& name) {
  return std::ranges::any_of(launcher.names, [&](std::string_view known) {
    return known.ends_with('_') ? name.starts_with(known) : name == known;
  });
}

/// Returns whether PMI_JOBID is Slurm's: "JOB.STEP" of its pmi2, or this job alone, of its cray_shasta.
bool pmi_is_slurms(const Environment& environment) {
  const auto job = number(environment, env::kPmiJobId);
  return job ? is_this_job(environment, *job)
             : parse_step_name(environment.get(env::kPmiJobId).value_or("")).has_value();
}

/// Returns the names of the launcher's variables, without those of Slurm's own PMIx and PMI.
std::vector<std::string> values_of(const Launcher& launcher, const Environment& environment) {
  const bool pmix_is_slurms = environment.get(env::kPmixNamespace).value_or("").starts_with(kSlurmsNamespace);
  const bool has_slurms_pmi = pmi_is_slurms(environment);
  std::vector<std::string> names;
  for (const auto& [name, value] : environment.variables()) {
    const bool is_slurms =
        (pmix_is_slurms && name.starts_with("PMIX_")) || (has_slurms_pmi && name.starts_with("PMI_"));
    if (is_set_by(launcher, name) && !is_slurms) {
      names.push_back(name);
    }
  }
  return names;
}

/// Empties the variables of launchers that started before the step: all of them have the values of the step's first
/// process. A launcher inside the step changes at least its address, or where its ranks write errors. Only hydra may
/// set the same values again: its ranks have descriptors, but no address.
void empty_values_of_outer_launchers(Environment& environment, const StepEvidence& evidence) {
  const Environment& given = *evidence.given;
  for (const Launcher& launcher : kLaunchers) {
    if (evidence.has_hydra && launcher.sign == env::kHydraLocalRank) {
      continue;
    }
    const std::vector<std::string> names = values_of(launcher, environment);
    const auto was_given = [&](const std::string& name) { return given.get(name) == environment.get(name); };
    if (environment.get_non_empty(launcher.sign) && std::ranges::all_of(names, was_given)) {
      std::ranges::for_each(names, [&](const std::string& name) { environment.set(name, ""); });
    }
  }
}

bool is_het_job_of_its_own(const Environment& environment) {
  const auto own = environment.get(env::kSlurmJobId);
  bool named = false;
  for (const std::string_view name : {"SLURM_JOB_ID_HET_GROUP_0", "SLURM_JOB_ID_PACK_GROUP_0"}) {
    const auto first = environment.get(name);
    if (first == own) {
      return true;
    }
    named = named || first;
  }
  return !named;
}

}  // namespace

std::optional<StepOfProcess> parse_step_name(std::string_view text) {
  const std::size_t point = text.find('.');
  const auto job = parse_integer<std::uint32_t>(text.substr(0, point));
  if (!job || point == text.npos || point + 1 == text.size()) {
    return std::nullopt;
  }
  const std::string_view step = text.substr(point + 1);
  return StepOfProcess{*job, std::string(step.substr(0, step.find('+')))};  // "0+1": srun A : B in an ordinary job
}

std::vector<std::string> emptied_variables(const Environment& environment) {
  std::vector<std::string> all;
  for (const Launcher& launcher : kLaunchers) {
    if (environment.get(launcher.sign) != "") {
      continue;
    }
    for (const std::string& name : values_of(launcher, environment)) {
      if (environment.get(name) == "") {
        all.push_back(name);
      }
    }
  }
  return all;
}

Environment without_inherited_variables(Environment environment, const StepEvidence& evidence) {
  if (!number(environment, env::kSlurmJobId)) {
    return environment;
  }
  if (!is_het_job_of_its_own(environment)) {
    environment.unset(env::kSlurmHetSize);
    drop_prefix(environment, env::kSlurmHetNodeList);
  }
  if (has_values_of_another_step(environment, evidence.step)) {
    drop_step(environment, evidence.step);
  }
  if (names_another_step(environment, env::kPmixNamespace)) {
    drop_prefix(environment, "PMIX_");
  }
  if (names_another_step(environment, env::kPmiJobId)) {
    drop_prefix(environment, "PMI_");
  }
  if (evidence.given) {
    empty_values_of_outer_launchers(environment, evidence);
  }
  if (evidence.is_array_element == false) {
    drop_prefix(environment, "SLURM_ARRAY_");
  }
  if (evidence.restarts == 0U) {
    environment.unset(env::kSlurmRestartCount);
  } else if (evidence.restarts) {
    environment.set(std::string(env::kSlurmRestartCount), std::to_string(*evidence.restarts));
  }
  return environment;
}

}  // namespace rollcall::job
