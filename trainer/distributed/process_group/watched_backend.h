#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/distributed/process_group/collectives.h"
#include "trainer/distributed/process_group/watchdog.h"

namespace rollcall::process_group {

/// `group` with a watchdog around its back ends: a collective that fails or takes longer than the timeout throws
/// CollectiveFailure, which says what it was and who did not come. Point-to-point operations, which only two ranks
/// call, pass through. `store` is the group's own. Every rank of the group calls it, though it waits for nobody.
[[nodiscard]] Group watch(const Group& group, const c10::intrusive_ptr<c10d::Store>& store,
                          const WatchdogOptions& options);

}  // namespace rollcall::process_group
