#include "runtime/cli/report_error.h"

#include <array>
#include <optional>
#include <string>

#include "runtime/contract/env_vars.h"

namespace rollcall::cli {
namespace {

/// A guess that works before anything is resolved. SLURM_PROCID comes last: `salloc` and mpirun leave it stale.
bool is_first_rank(const Environment& environment) {
  for (const std::string_view name : {env::kRank, env::kPmixRank, env::kSlurmProcId}) {
    if (const std::optional<std::string> rank = environment.get_non_empty(name)) {
      return *rank == "0";
    }
  }
  return true;
}

}  // namespace

int report_error(const Error& error, const Environment& environment, std::ostream& err) {
  const bool same_everywhere = error.exit_code == ExitCode::Usage || error.exit_code == ExitCode::Configuration;
  if (!same_everywhere || is_first_rank(environment)) {
    err << error.message() << std::endl;
  }
  return to_int(error.exit_code);
}

}  // namespace rollcall::cli
