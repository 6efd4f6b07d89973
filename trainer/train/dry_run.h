#pragma once

#include "runtime/base/result.h"
#include "trainer/metrics/startup_trace.h"
#include "trainer/train/job_context.h"
#include "trainer/train/session.h"

namespace rollcall::train {

/// Runs the first collective, for a dry run or a traced start. Rank 0 prints the trace if it was requested. Collective.
/// Errors (Unavailable): a peer was lost.
[[nodiscard]] Result<void> first_collective(const JobContext& context, const config::Options& options,
                                            metrics::StartupTrace& trace);

/// Checks what training would refuse at its start. With --data it also opens the data and the file of --resume, makes
/// the model, and takes up to 20 steps or 10 seconds of them, of which nothing is kept. Rank 0 prints what they say of
/// the whole training: memory of a rank, space for checkpoints, time and energy. Each rank prints at the end that it is
/// done. Collective.
///
/// Errors: those of a training's start; (Usage) a step needs more memory than a rank may use; (InputOutput) there is no
/// space for a checkpoint; (Unavailable) a peer was lost.
[[nodiscard]] Result<void> dry_run(const SessionInput& input, const JobContext& context);

/// Measures with which learning rates the loss falls: see test_learning_rates(). Rank 0 prints every fifth, and the
/// suggestion. Collective. Errors: those of a training's start.
[[nodiscard]] Result<void> find_learning_rate(const SessionInput& input, const JobContext& context);

}  // namespace rollcall::train
