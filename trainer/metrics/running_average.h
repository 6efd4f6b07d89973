#pragma once

#include <cstdint>

namespace rollcall::metrics {

/// Sums over samples: of a batch, of all ranks, of an epoch. Counts are exact integers, so that the accuracy of an
/// epoch is the true fraction whatever the batches were. Plain value.
struct RunningAverage {
  double loss_sum = 0;  ///< sum of the samples' losses, not of the batches' means
  std::int64_t correct_top1 = 0;
  std::int64_t correct_top5 = 0;
  std::int64_t samples = 0;
  // Samples that are not among these, though they should be:
  std::int64_t damaged = 0;  ///< no image could be made of what was read
  std::int64_t unread = 0;   ///< the file system gave nothing, or an error

  RunningAverage& operator+=(const RunningAverage& other) {
    loss_sum += other.loss_sum;
    correct_top1 += other.correct_top1;
    correct_top5 += other.correct_top5;
    samples += other.samples;
    damaged += other.damaged;
    unread += other.unread;
    return *this;
  }

  /// Samples that were left out.
  [[nodiscard]] std::int64_t bad() const { return damaged + unread; }

  /// Means over the samples; 0 where there are none. Accuracies are fractions in [0, 1].
  [[nodiscard]] double loss() const { return over_samples(loss_sum); }
  [[nodiscard]] double top1() const { return over_samples(static_cast<double>(correct_top1)); }
  [[nodiscard]] double top5() const { return over_samples(static_cast<double>(correct_top5)); }

 private:
  [[nodiscard]] double over_samples(double sum) const { return samples > 0 ? sum / static_cast<double>(samples) : 0; }
};

}  // namespace rollcall::metrics
