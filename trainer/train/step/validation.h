#pragma once

#include <functional>
#include <optional>

#include "trainer/metrics/running_average.h"
#include "trainer/train/step/loop.h"

namespace rollcall::train {

/// The results of a validation over all ranks.
struct Validated {
  metrics::Validation model;
  std::optional<metrics::Validation> average = {};  ///< with the average of the weights (--ema); unset: none

  /// Returns that by which the best checkpoints are chosen.
  [[nodiscard]] const metrics::Validation& deciding() const { return average ? *average : model; }
};

/// Runs one pass over the validation images with the current model in eval(), which it stays in, and a second one with
/// the average of its weights if there is one. Every rank computes its part; `found` gets the results over all ranks,
/// whatever their values. After every batch the ranks exchange whether any of them was `asked` to stop. Collective;
/// main thread only.
///
/// Returns nothing if it completed; Interrupted or Regrouped if a rank was asked for that; Failed if data cannot be
/// read or a peer was lost.
[[nodiscard]] std::optional<Outcome> run_validation(const Run& run, const std::function<Requests()>& asked,
                                                    Validated& found);

}  // namespace rollcall::train
