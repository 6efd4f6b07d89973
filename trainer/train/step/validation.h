#pragma once

#include <functional>
#include <optional>

#include "trainer/metrics/running_average.h"
#include "trainer/train/step/loop.h"

namespace rollcall::train {

/// One pass over the validation images with the model as it is, in eval(); it is left so. Every rank computes its part;
/// `sums` gets the sums over all ranks, whatever they are. After every batch the ranks tell each other whether
/// any of them was `asked` to end. Collective; main thread only.
///
/// Nothing where it was done; Interrupted or Regrouped where a rank was asked for that; Failed where data cannot be
/// read or a peer was lost.
[[nodiscard]] std::optional<Outcome> run_validation(const Run& run, const std::function<Asked()>& asked,
                                                    metrics::RunningAverage& sums);

}  // namespace rollcall::train
