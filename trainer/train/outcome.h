#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "trainer/metrics/running_average.h"

namespace rollcall::train {

struct World;

struct Failure {
  Error error;
  bool everywhere = false;  ///< all ranks have it, from the same numbers
};

enum class Ending {
  Finished,     ///< all epochs or --max-steps done
  Interrupted,  ///< a stop signal arrived at some rank, or the job's limit is near; a checkpoint was saved
  Regrouped,    ///< the agents have said that the world changes: all ranks stand between two steps
  Failed,
};

struct Outcome {
  Ending ending = Ending::Finished;
  std::optional<Failure> failure;  ///< with Ending::Failed
};

/// A run that ends with `error`: this rank's, all ranks' alike, or another one's that only shows here.
[[nodiscard]] Outcome failed(Error error);
/// The same of what all ranks have from the same numbers, so that there is nobody to live on.
[[nodiscard]] Outcome failed_everywhere(Error error);

/// Runs LibTorch code: what it throws becomes the outcome. Nothing where all went well.
[[nodiscard]] std::optional<Outcome> catch_training_errors(const World& world, const std::function<void()>& work);

/// Where a device's collective did not end: what each of this rank's came to, in `folder`, as
/// collectives-rank-N-step-S.json with the `step` that the run had come to. For who looks for the reason; others have
/// been told of the failure by then.
void write_flight_record(const World& world, const std::string& folder, std::int64_t step);

/// What NCCL said in this process, in `folder`, as nccl-rank-N.log; no file where it said nothing, or elsewhere
/// (device/nccl_log.h).
void write_nccl_log(const World& world, const std::string& folder);

// How a training ends whose numbers are no longer finite: what is told, and the way on. All are BadData.

/// The loss of step `step`. `first_of_run`: the run went on from a checkpoint and has done no other step: it is that
/// checkpoint's model which has diverged.
[[nodiscard]] Error loss_not_finite(double loss, std::int64_t step, bool has_checkpoint, bool first_of_run);
[[nodiscard]] Error validation_not_finite(double loss, std::int64_t step);
/// After so many steps in a row that were left out. `where`: place_of() the first such parameter.
[[nodiscard]] Error gradients_not_finite(const std::string& where, std::int64_t in_a_row, std::int64_t step);
/// float16, with the smallest scale.
[[nodiscard]] Error gradients_not_finite_at_any_scale();
/// `where`: the first such weight, statistic or moment ("optimizer/state/fc.weight/exp_avg_sq"), or empty as above.
/// Nothing was saved.
[[nodiscard]] Error state_not_finite(const std::string& where, std::int64_t step);

/// More of the `images` for `part` ("training", "validation") of `data` (--data) could not be read than
/// --max-bad-samples allows. InputOutput where most of them were not to be had from the file system, else BadData.
[[nodiscard]] Error too_many_bad_samples(const metrics::RunningAverage& sums, std::int64_t images, const char* part,
                                         const std::string& data);

/// So many runs that did nothing else but one validation, and were interrupted in it, are the last. One or two may have
/// been preempted; after three the job is too short for it.
inline constexpr std::int64_t kValidationsInVain = 3;

/// The last of so many was interrupted in the validation of step `step`, after `seconds` (Usage).
[[nodiscard]] Error validation_does_not_fit(double seconds, std::int64_t step);

/// "of conv1.weight", "of another rank's part"
[[nodiscard]] std::string place_of(const std::string& parameter);

}  // namespace rollcall::train
