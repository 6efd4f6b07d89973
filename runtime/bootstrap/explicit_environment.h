#pragma once

#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"

namespace rollcall::bootstrap {

/// Why `environment` does not say the ranks explicitly, or nothing where the user set RANK and WORLD_SIZE.
[[nodiscard]] std::optional<std::string> why_not_explicit(const Environment& environment);

/// The facts from RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and GROUP_RANK or NODE_RANK, as torchrun sets them;
/// `source` is "environment". Without LOCAL_WORLD_SIZE all ranks are taken to be on one node. Hosts stay unknown:
/// MASTER_ADDR says where rank 0 is. Errors (Mismatch): a value is no number or out of range. Pure.
[[nodiscard]] Result<job::JobFacts> facts_from_environment(const Environment& environment);

}  // namespace rollcall::bootstrap
