#include "runtime/job/own_environment.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/node_list.h"

namespace rollcall::job {
namespace {

/// As Slurm 26.05 has it in a batch script (SLURM_BATCH_SCRIPT in slurm.h, without a sign).
constexpr std::string_view kBatchStep = "4294967291";
/// Ids from here on are special steps: interactive, batch, extern (slurm.h); 26.05 writes them as negative numbers.
constexpr std::uint32_t kFirstSpecialStep = 0xfffffffa;

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

/// Whether `job` is the environment's, or one of the numbers that the components of a het job have.
bool is_this_job(const Environment& environment, std::uint32_t job) {
  const auto own = number(environment, env::kSlurmJobId);
  const std::uint32_t components = std::max(number(environment, env::kSlurmHetSize).value_or(1), 1U);
  return own && job >= *own && job - *own < components;
}

bool fits_nodes_of_job(const Environment& environment) {
  const auto of_step = expand_node_list(environment.get(env::kSlurmStepNodeList).value_or(""));
  const auto of_job = expand_node_list(environment.get(env::kSlurmJobNodeList).value_or(""));
  if (!of_step || !of_job || of_job->empty() || environment.get(env::kSlurmHetSize)) {
    return true;  // nothing to compare; in a het job either list may be one component's
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

/// `name` holds "slurm.pmix.JOB.STEP" or "JOB.STEP" where Slurm set it.
bool names_another_step(const Environment& environment, std::string_view name) {
  constexpr std::string_view kSlurms = "slurm.pmix.";
  const std::string value = environment.get(name).value_or("");
  const auto named = step_named(value.starts_with(kSlurms) ? value.substr(kSlurms.size()) : value);
  return named && (!is_this_job(environment, named->job) || environment.get(env::kSlurmStepId) != named->step);
}

void drop_step(Environment& environment, const std::optional<StepOfProcess>& own) {
  const bool of_this_job = own && is_this_job(environment, own->job);
  const auto id = environment.get(env::kSlurmStepId);
  const bool ordinary = number(environment, env::kSlurmStepId).value_or(kFirstSpecialStep) < kFirstSpecialStep;
  drop_prefix(environment, "SLURM_STEP");
  if (of_this_job && id) {
    environment.set(std::string(env::kSlurmStepId), ordinary ? std::string(kBatchStep) : *id);
  } else if (own && !of_this_job) {  // salloc, which Slurm gives none of these
    drop(environment, {env::kSlurmProcId, env::kSlurmLocalId, env::kSlurmNodeId, env::kSlurmNodeName,
                       env::kSlurmJobEndTime, env::kSlurmCpusOnNode});
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

std::optional<StepOfProcess> step_named(std::string_view text) {
  const std::size_t point = text.find('.');
  const auto job = parse_integer<std::uint32_t>(text.substr(0, point));
  if (!job || point == text.npos || point + 1 == text.size()) {
    return std::nullopt;
  }
  const std::string_view step = text.substr(point + 1);
  return StepOfProcess{*job, std::string(step.substr(0, step.find('+')))};  // "0+1": srun A : B in an ordinary job
}

Environment without_values_of_others(Environment environment, const Witnesses& witnesses) {
  if (!number(environment, env::kSlurmJobId)) {
    return environment;
  }
  if (!is_het_job_of_its_own(environment)) {
    environment.unset(env::kSlurmHetSize);
    drop_prefix(environment, env::kSlurmHetNodeList);
  }
  if (has_values_of_another_step(environment, witnesses.step)) {
    drop_step(environment, witnesses.step);
  }
  if (names_another_step(environment, env::kPmixNamespace)) {
    drop_prefix(environment, "PMIX_");
  }
  if (names_another_step(environment, env::kPmiJobId)) {
    drop_prefix(environment, "PMI_");
  }
  if (witnesses.is_array_element == false) {
    drop_prefix(environment, "SLURM_ARRAY_");
  }
  if (witnesses.restarts == 0U) {
    environment.unset(env::kSlurmRestartCount);
  } else if (witnesses.restarts) {
    environment.set(std::string(env::kSlurmRestartCount), std::to_string(*witnesses.restarts));
  }
  return environment;
}

}  // namespace rollcall::job
