#pragma once

#include "trainer/distributed/process_group/collectives.h"

namespace rollcall::process_group {

/// Whether ROLLCALL_TEST_SWEEP is full.
[[nodiscard]] bool full_sweep();

/// Every collective and message that trainings call on `group`, against a scalar reference; throws with
/// what was wrong. Collective. A full sweep adds sizes up to 100 MiB and every type for every operation (minutes).
void check_every_collective(const Group& group);

}  // namespace rollcall::process_group
