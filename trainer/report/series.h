#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rollcall::report {

/// Neighbouring values of a curve as one: what a pixel's column of a chart shows of them.
struct Point {
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  std::int64_t count = 0;  ///< of values
  double sum = 0;
  double least = 0;
  double most = 0;

  [[nodiscard]] double mean() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
};

/// A curve over steps in bounded memory, however long a run is: a point stands for `width` steps, with mean, least and
/// most of its values, so that no peak is lost. The width is 1 as long as there is room, and doubles where there is
/// none; so one pass over a record of unknown length is enough. Plain value.
class Series {
 public:
  /// `capacity`: points that are kept at most, at least 2; half as many or more remain after each doubling.
  explicit Series(std::size_t capacity = 1024) : capacity_(capacity) {}

  /// Steps ascend (an earlier one counts as part of the last point). NaN is passed over.
  void add(std::int64_t step, double value);
  /// Forgets what is of later steps than `step`, which a run that went on from there did again. A point that reaches
  /// beyond keeps its values. Returns the sum of what was forgotten.
  double forget_after(std::int64_t step);

  [[nodiscard]] const std::vector<Point>& points() const { return points_; }
  [[nodiscard]] bool empty() const { return points_.empty(); }
  /// Over all values; 0 where there are none.
  [[nodiscard]] double sum() const;
  [[nodiscard]] double mean() const;
  [[nodiscard]] double most() const;

 private:
  void double_width();

  std::size_t capacity_;
  std::int64_t width_ = 1;
  std::vector<Point> points_;
};

/// At most `most` points (at least 1), neighbours merged.
[[nodiscard]] std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most);

}  // namespace rollcall::report
