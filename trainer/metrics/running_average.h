#pragma once

#include <cstdint>
#include <optional>

namespace rollcall::metrics {

/// Sums over samples of a batch, of all ranks, or of an epoch. Counts are exact integers, so that the accuracy of an
/// epoch does not depend on its batches. Plain value.
struct RunningAverage {
  double loss_sum = 0;  ///< sum of the samples' losses, not of the batches' means
  std::int64_t correct_top1 = 0;
  std::int64_t correct_top5 = 0;
  std::int64_t samples = 0;
  // Samples that are missing in these sums:
  std::int64_t damaged = 0;  ///< they could not be decoded
  std::int64_t unread = 0;   ///< they could not be read

  RunningAverage& operator+=(const RunningAverage& other) {
    loss_sum += other.loss_sum;
    correct_top1 += other.correct_top1;
    correct_top5 += other.correct_top5;
    samples += other.samples;
    damaged += other.damaged;
    unread += other.unread;
    return *this;
  }

  /// Returns the number of missing samples.
  [[nodiscard]] std::int64_t bad() const { return damaged + unread; }

  /// These return means over the samples, and 0 without samples. Accuracies are in [0, 1].
  [[nodiscard]] double loss() const { return over_samples(loss_sum); }
  [[nodiscard]] double top1() const { return over_samples(static_cast<double>(correct_top1)); }
  [[nodiscard]] double top5() const { return over_samples(static_cast<double>(correct_top5)); }

 private:
  [[nodiscard]] double over_samples(double sum) const { return samples > 0 ? sum / static_cast<double>(samples) : 0; }
};

/// The result of a validation.
struct Validation {
  RunningAverage sums;
  std::optional<double> mean_average_precision{};  ///< over all classes; unset: each image has one class

  /// Returns the number by which validations are compared, the higher the better.
  [[nodiscard]] double quality() const { return mean_average_precision.value_or(sums.top1()); }
};

}  // namespace rollcall::metrics
