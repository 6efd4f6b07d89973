#pragma once

#include <vector>

namespace rollcall::metrics {

/// What a model says of an image and a class, and whether the image has the class.
struct Scored {
  double score = 0;  ///< higher: more likely; NaN counts as the lowest
  bool is_positive = false;
};

/// Returns the average precision of one class: the sum over all different scores, from the highest on, of the precision
/// at this score times the recall that it adds. It is scikit-learn's average_precision_score: 0 without positives.
[[nodiscard]] double average_precision(std::vector<Scored> images);

}  // namespace rollcall::metrics
