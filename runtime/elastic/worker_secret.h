#pragma once

#include <string>

#include "runtime/base/environment.h"

namespace rollcall::elastic {

/// Hides from child processes what a Slurm step gave to this agent: removes the variables and marks the descriptor
/// close-on-exec. To be called once the secret has been read.
void keep_from_workers(Environment& environment);

/// Returns the descriptor of a memory file (memfd_create(2)) for rendezvous::shared_secret(). Its secret is derived
/// from `drawn` and the run's name: it is the same for the workers of all nodes and generations of `run`, differs from
/// that of every other run, and reveals nothing of `drawn`. Returns -1 on failure. The caller closes it.
[[nodiscard]] int worker_secret(const std::string& drawn, const std::string& run, const Environment& environment);

}  // namespace rollcall::elastic
