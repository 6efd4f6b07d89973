#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rollcall::report {

/// Several neighbouring values of a curve, which one pixel column of a chart shows.
struct Point {
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  std::int64_t count = 0;  ///< number of values
  double sum = 0;
  double least = 0;
  double most = 0;

  [[nodiscard]] double mean() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
};

/// A curve over steps in bounded memory, however long a run is. A point has the mean, least and most of the values of
/// `width` steps, so that no peak is lost. The width begins with 1 and doubles when the capacity is reached, so that
/// one pass over a record of unknown length is enough. Plain value.
class Series {
 public:
  /// `capacity` is the maximum number of points, at least 2. At least half as many remain after each doubling.
  explicit Series(std::size_t capacity = 1024) : capacity_(capacity) {}

  /// Adds a value. Steps must ascend; an earlier one is added to the last point. NaN is skipped.
  void add(std::int64_t step, double value);
  /// Removes the values of steps after `step`, which a resumed run repeats. A point that contains `step` keeps all its
  /// values. Returns the sum of the removed values.
  double forget_after(std::int64_t step);

  [[nodiscard]] const std::vector<Point>& points() const { return points_; }
  [[nodiscard]] bool empty() const { return points_.empty(); }
  // These are over all values, and 0 without values.
  [[nodiscard]] double sum() const;
  [[nodiscard]] double mean() const;
  [[nodiscard]] double most() const;

 private:
  void double_width();

  std::size_t capacity_;
  std::int64_t width_ = 1;
  std::vector<Point> points_;
};

/// Merges neighbouring points until there are at most `most` (at least 1).
[[nodiscard]] std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most);

}  // namespace rollcall::report
