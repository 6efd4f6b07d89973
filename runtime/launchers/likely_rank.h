#pragma once

#include <cstdint>
#include <optional>

#include "runtime/base/environment.h"

namespace rollcall::launchers {

// These guess this task's rank from variables alone, before anything is resolved: it decides which task prints what all
// tasks have alike. A variable counts only where its launcher started this task: Slurm's in a task of srun, since
// salloc and batch scripts have a stale SLURM_PROCID.

/// Returns the rank that torchrun, `rollcall run`, MPI or Slurm gave this task; nothing where none of them started it.
[[nodiscard]] std::optional<std::uint32_t> launched_rank(const Environment& environment);
/// Returns launched_rank(), or else RANK, which may come from the user's shell, or a bare SLURM_PROCID; else 0.
[[nodiscard]] std::uint32_t likely_rank(const Environment& environment);
[[nodiscard]] std::uint32_t likely_local_rank(const Environment& environment);

}  // namespace rollcall::launchers
