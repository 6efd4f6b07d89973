#pragma once

#include <span>
#include <vector>

namespace rollcall::metrics::tensorboard {

/// How numbers are distributed: counts[i] of them are between limits[i - 1] and limits[i], the first ones between `min`
/// and limits[0]. Empty buckets are there only where the next one has to begin somewhere.
struct Histogram {
  double min = 0;
  double max = 0;
  double count = 0;
  double sum = 0;
  double sum_of_squares = 0;
  std::vector<double> limits{};  ///< ascending, finite
  std::vector<double> counts{};
};

/// Of the finite ones of `values`. Buckets have a width of an eighth to a quarter of their numbers' size, four to a
/// power of two, so that gradients around 1e-8 and weights around 1 are both seen well. Reads each number once. Pure.
[[nodiscard]] Histogram histogram_of(std::span<const float> values);

}  // namespace rollcall::metrics::tensorboard
