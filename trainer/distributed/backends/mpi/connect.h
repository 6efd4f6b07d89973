#pragma once

#include <memory>

#include "runtime/base/result.h"
#include "trainer/distributed/backends/engine/engine.h"
#include "trainer/distributed/backends/engine/exchange.h"

namespace rollcall::process_group::mpi {

/// Plugin::connect().
[[nodiscard]] Result<std::unique_ptr<process_group::Engine>> connect(const Exchange& exchange);

}  // namespace rollcall::process_group::mpi
