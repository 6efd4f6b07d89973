#pragma once

#include <cstdint>
#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/distributed/processes/process_watch.h"

namespace rollcall::process_group {

// Which of a group's ranks are processes of this host. They find each other in the group's store, where each host has
// a list of its own: what a rank reads grows with the ranks of its host alone. Both throw what the store throws.

/// Writes this process down. Before the ranks connect, so that afterwards every list is complete.
void publish_process(c10d::Store& store, std::uint32_t rank);

/// Watches the other ranks of this host that have been written down; none where that was not done.
[[nodiscard]] std::shared_ptr<ProcessWatch> watch_host_peers(c10d::Store& store, std::uint32_t own_rank);

}  // namespace rollcall::process_group
