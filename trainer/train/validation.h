#pragma once

#include <functional>
#include <optional>

#include "trainer/metrics/running_average.h"
#include "trainer/train/observer.h"
#include "trainer/train/outcome.h"
#include "trainer/train/training.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// What a rank was asked for from outside.
struct Asked {
  bool to_stop = false;     ///< by a signal or the time limit: to save and end
  bool to_regroup = false;  ///< by its agent: the world changes
};

/// One pass over the validation images with the model as it is, in eval(); it is left so. Every rank computes its part;
/// `sums` gets the sums over all ranks, whatever they are. After every batch the ranks tell each other whether
/// `asked_to_stop` says so on any of them. Collective; main thread only.
///
/// Nothing where it was done; Interrupted where a rank was asked to stop; Failed where data cannot be read or a peer
/// was lost.
[[nodiscard]] std::optional<Outcome> run_validation(const config::TrainConfig& config, const World& world,
                                                    Training& training, Observer& observer,
                                                    const std::function<Asked()>& asked, metrics::RunningAverage& sums);

}  // namespace rollcall::train
