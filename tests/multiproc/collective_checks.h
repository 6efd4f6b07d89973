#pragma once

#include <string>

#include "trainer/distributed/process_group/collectives.h"

namespace rollcall::process_group {

/// Whether ROLLCALL_TEST_SWEEP is full.
[[nodiscard]] bool full_sweep();

/// Every collective and message of c10d on `group`, which `backend` carries, against a scalar reference; throws with
/// what was wrong. Collective. A full sweep adds sizes up to 100 MiB and every type for every operation (minutes).
void check_every_collective(const Group& group, const std::string& backend);

}  // namespace rollcall::process_group
