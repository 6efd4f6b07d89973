#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "runtime/base/result.h"
#include "trainer/distributed/backends/engine/exchange.h"
#include "trainer/distributed/backends/ucx/engine.h"

namespace rollcall::process_group::ucx {

/// This rank's engine of a new group, connected to all others: a message went to and came from each of them.
/// Collective. Every rank holds an endpoint to every other one, so that each notices a death by itself.
///
/// Errors: those of Context, Worker and `exchange`; (Unavailable) not all ranks answered within `timeout`.
[[nodiscard]] Result<std::unique_ptr<Engine>> connect(std::uint32_t rank, std::uint32_t world_size,
                                                      const Exchange& exchange, std::chrono::milliseconds timeout,
                                                      const RankNames& names = {});

}  // namespace rollcall::process_group::ucx
