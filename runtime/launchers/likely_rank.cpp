#include "runtime/launchers/likely_rank.h"

#include <initializer_list>
#include <string_view>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/launchers/slurm.h"

namespace rollcall::launchers {
namespace {

using Names = std::initializer_list<std::string_view>;

std::optional<std::uint32_t> first_number(const Environment& environment, Names names) {
  for (const std::string_view name : names) {
    if (const auto number = parse_integer<std::uint32_t>(environment.get(name).value_or(""))) {
      return number;
    }
  }
  return std::nullopt;
}

/// `torchruns` are the variables that torchrun sets, `mpis` those of MPI's launchers, `slurms` those of srun.
std::optional<std::uint32_t> launched(const Environment& environment, Names torchruns, Names mpis, Names slurms) {
  if (environment.get_non_empty(env::kTorchElasticRunId)) {
    return first_number(environment, torchruns);
  }
  const auto number = first_number(environment, mpis);
  return number || why_not_a_slurm_task(environment) ? number : first_number(environment, slurms);
}

}  // namespace

std::optional<std::uint32_t> launched_rank(const Environment& environment) {
  return launched(environment, {env::kRank}, {env::kPmixRank, env::kOmpiRank, "PMI_RANK"}, {env::kSlurmProcId});
}

std::uint32_t likely_rank(const Environment& environment) {
  const auto rank = launched_rank(environment);
  return rank ? *rank : first_number(environment, {env::kRank, env::kSlurmProcId}).value_or(0);
}

std::uint32_t likely_local_rank(const Environment& environment) {
  const auto rank = launched(environment, {env::kLocalRank}, {"OMPI_COMM_WORLD_LOCAL_RANK", env::kHydraLocalRank},
                             {env::kSlurmLocalId});
  return rank ? *rank : first_number(environment, {env::kLocalRank, env::kSlurmLocalId}).value_or(0);
}

}  // namespace rollcall::launchers
