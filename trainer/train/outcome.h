#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "trainer/metrics/running_average.h"

namespace rollcall::train {

struct JobContext;

struct Failure {
  Error error;
  bool everywhere = false;  ///< all ranks have the same failure, computed from the same numbers
};

enum class Ending {
  Finished,     ///< all epochs or --max-steps done
  Interrupted,  ///< a stop signal arrived at a rank, or the time limit is near; a checkpoint was saved
  Regrouped,    ///< the agents change the world: all ranks have stopped between two steps
  Failed,
};

struct Outcome {
  Ending ending = Ending::Finished;
  std::optional<Failure> failure;  ///< with Ending::Failed
};

/// Returns the outcome of a run that ends with `error`: of this rank, of all ranks, or caused by another rank.
[[nodiscard]] Outcome failed(Error error);
/// Returns the outcome of a failure that all ranks computed from the same numbers, so that no rank can continue.
[[nodiscard]] Outcome failed_everywhere(Error error);

/// Runs LibTorch code and turns its exceptions into an outcome; nothing if it succeeds.
[[nodiscard]] std::optional<Outcome> catch_training_errors(const JobContext& context,
                                                           const std::function<void()>& work);

/// Writes collectives-rank-N-step-S.json into `folder` if a collective of the device did not end: the state of each of
/// this rank's collectives. `step` is the last step of the run. It helps to find the cause; the failure itself has been
/// reported before.
void write_flight_record(const JobContext& context, const std::string& folder, std::int64_t step);

// Errors of a training whose numbers are no longer finite. All are BadData.

// `has_checkpoint`: there is a checkpoint to resume from.

/// The loss of step `step` is not finite. `first_of_run`: the run resumed from a checkpoint and has done no other step,
/// so the model of that checkpoint has diverged.
[[nodiscard]] Error loss_not_finite(double loss, std::int64_t step, bool has_checkpoint, bool first_of_run);
[[nodiscard]] Error validation_not_finite(double loss, std::int64_t step, bool has_checkpoint);
/// The gradients were not finite in so many steps in a row, all of which were skipped. `where` is where_text() the
/// first such parameter.
[[nodiscard]] Error gradients_not_finite(const std::string& where, std::int64_t in_a_row, std::int64_t step,
                                         bool has_checkpoint);
/// The gradients are not finite in float16 even with the smallest loss scale.
[[nodiscard]] Error gradients_not_finite_at_any_scale();
/// The state after step `step` is not finite, so it was not saved. `where` is the first such weight, statistic or
/// moment ("optimizer/state/fc.weight/exp_avg_sq"); empty: another rank has it.
[[nodiscard]] Error state_not_finite(const std::string& where, std::int64_t step, bool has_checkpoint);

/// More of the `images` for `part` ("training", "validation") of `data` (--data) could not be read than
/// --max-bad-samples allows. InputOutput if the file system failed to read most of them, else BadData.
[[nodiscard]] Error too_many_bad_samples(const metrics::RunningAverage& sums, std::int64_t images, const char* part,
                                         const std::string& data);

/// The number of runs in a row that only validated and were interrupted, after which the training ends. One or two may
/// have been preempted; after three the job is too short for a validation.
inline constexpr std::int64_t kMaxFailedValidations = 3;

/// The last of kMaxFailedValidations runs was interrupted in the validation of step `step` after `seconds` (Usage).
[[nodiscard]] Error validation_does_not_fit(double seconds, std::int64_t step);

/// Returns "in conv1.weight", or "in another rank's part" for an empty name.
[[nodiscard]] std::string where_text(const std::string& parameter);

}  // namespace rollcall::train
