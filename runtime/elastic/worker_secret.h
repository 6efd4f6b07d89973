#pragma once

#include <string>

#include "runtime/base/environment.h"

namespace rollcall::elastic {

/// Keeps what a step of Slurm gave to this agent from what it starts: the variables, and the descriptor, which is
/// closed there. To be called once it has been read.
void keep_from_workers(Environment& environment);

/// A memory file (memfd_create(2)) as rendezvous::shared_secret() reads it, with a secret that is made of `drawn` and
/// the run's own name: the same for the workers of all nodes and generations of `run`, and no other run's. Nothing of
/// `drawn` follows from it. -1: none can be made. The caller closes it.
[[nodiscard]] int worker_secret(const std::string& drawn, const std::string& run, const Environment& environment);

}  // namespace rollcall::elastic
