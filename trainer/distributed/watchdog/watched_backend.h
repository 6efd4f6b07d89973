#pragma once

#include <c10/util/intrusive_ptr.h>
#include <cstdint>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "trainer/distributed/watchdog/watchdog.h"

namespace rollcall::process_group {

/// The ranks to which a back end has no connection any more.
using BrokenPeers = std::vector<std::uint32_t> (*)(c10d::Backend&);

/// `group` with a watchdog around its back ends: a collective that fails or takes longer than the timeout throws
/// CollectiveFailure, which says what it was and who did not come. Point-to-point operations, which only two ranks
/// call, pass through. `store` is the group's own. `broken_peers_of_gloo` is asked of the group's Gloo, where it has
/// one. Every rank of the group calls it, though it waits for nobody.
[[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> watch(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                           const c10::intrusive_ptr<c10d::Store>& store,
                                                           const WatchdogOptions& options,
                                                           BrokenPeers broken_peers_of_gloo);

}  // namespace rollcall::process_group
