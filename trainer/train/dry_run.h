#pragma once

#include "runtime/base/result.h"
#include "trainer/config/options.h"
#include "trainer/metrics/startup_trace.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// What a dry run does, and what a traced start does before it trains: the first collective. A dry run then tells so on
/// every rank; rank 0 prints the trace where it is wanted. Errors (Unavailable): a peer was lost.
[[nodiscard]] Result<void> dry_run(const World& world, const config::Options& options, metrics::StartupTrace& trace);

}  // namespace rollcall::train
