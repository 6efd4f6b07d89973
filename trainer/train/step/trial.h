#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/config/train_config.h"
#include "trainer/train/job_context.h"

namespace rollcall::train {

/// What the steps of a trial showed. The same on all ranks, of which `memory` is the most and `memory_limit` the least.
struct TrialResult {
  std::int64_t training_images = 0;
  std::int64_t validation_images = 0;
  std::int64_t classes = 0;
  std::int64_t parameters = 0;   ///< of the whole model
  std::int64_t steps = 0;        ///< steps that were measured
  double seconds = 0;            ///< of a step
  std::int64_t images = 0;       ///< of a step, of all ranks
  double joules = 0;             ///< of a step, of all nodes; 0: not measured on each node
  std::int64_t total_steps = 0;  ///< of the whole training
  std::uint64_t checkpoint_bytes = 0;
  std::optional<std::uint64_t> memory = {};        ///< peak of a rank in bytes: on a device of its memory
  std::optional<std::uint64_t> memory_limit = {};  ///< of a rank, in bytes; unset: unknown
  std::optional<std::int64_t> largest_batch = {};  ///< --batch-size that would fit, about; unset: unknown
};

/// Opens the data, makes model, replica and optimizer, loads --init-from, and takes up to 20 steps or 10 seconds of
/// them, with images of the final size. Nothing is resumed, and nothing is written. On a CPU it first measures two
/// small batches, so that it can refuse a batch that does not fit before the kernel ends the process. Collective; the
/// errors are the same on all ranks.
///
/// Errors: those of make_training() and add_replica(); (Usage) a step needs more memory than a rank may use;
/// (Unavailable) a peer was lost.
[[nodiscard]] Result<TrialResult> run_trial(const config::TrainConfig& config, const JobContext& context);

/// A step of a range test: its rate as --lr would have it, and the smoothed loss of all ranks.
struct RangePoint {
  double learning_rate = 0;
  double loss = 0;
};

/// Takes up to 100 steps of a training of which nothing is kept, with rates from 1e-6 to 10, until the loss is three
/// times the lowest one (Smith 2017, arXiv 1506.01186). Calls `tested` after each. Collective; errors as for
/// run_trial().
[[nodiscard]] Result<void> test_learning_rates(const config::TrainConfig& config, const JobContext& context,
                                               const std::function<void(const RangePoint&)>& tested);

/// Returns the rate at which the loss fell fastest; nothing where it hardly fell. Pure.
[[nodiscard]] std::optional<double> suggested_learning_rate(const std::vector<RangePoint>& points);

}  // namespace rollcall::train
