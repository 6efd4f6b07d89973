#pragma once

#include <optional>
#include <string>

#include "runtime/base/environment.h"

namespace rollcall::spank {

/// The host of rank 0 as slurmctld knows it: one request to it, 1-9 ms. Needed under --distribution=arbitrary only,
/// where the variables do not tell. For task_init only: earlier it ends slurmstepd in Slurm 24.11. Nothing where
/// slurmctld does not answer or this Slurm does not offer the question.
[[nodiscard]] std::optional<std::string> head_host_from_layout(const Environment& step);

}  // namespace rollcall::spank
