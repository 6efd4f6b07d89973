#pragma once

#include <functional>
#include <optional>

#include "trainer/metrics/running_average.h"
#include "trainer/train/step/loop.h"

namespace rollcall::train {

/// Runs one pass over the validation images with the current model in eval(), which it stays in. Every rank computes
/// its part; `sums` gets the sums over all ranks, whatever their values. After every batch the ranks exchange whether
/// any of them was `asked` to stop. Collective; main thread only.
///
/// Returns nothing if it completed; Interrupted or Regrouped if a rank was asked for that; Failed if data cannot be
/// read or a peer was lost.
[[nodiscard]] std::optional<Outcome> run_validation(const Run& run, const std::function<Requests()>& asked,
                                                    metrics::RunningAverage& sums);

}  // namespace rollcall::train
