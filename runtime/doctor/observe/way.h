#pragma once

#include "runtime/base/environment.h"
#include "runtime/doctor/world.h"

namespace rollcall::doctor {

/// Whether there is a srun, whether `srun --help` lists --ddp, and whose installation Slurm's configuration files name.
[[nodiscard]] Way observe_way(const Environment& environment);

}  // namespace rollcall::doctor
