#include "trainer/report/series.h"

#include <algorithm>
#include <cmath>

namespace rollcall::report {
namespace {

void absorb(Point& point, const Point& next) {
  point.last_step = std::max(point.last_step, next.last_step);
  point.count += next.count;
  point.sum += next.sum;
  point.least = std::min(point.least, next.least);
  point.most = std::max(point.most, next.most);
}

}  // namespace

void Series::add(std::int64_t step, double value) {
  if (!std::isfinite(value)) {
    return;
  }
  const Point point{step, step, 1, value, value, value};
  if (!points_.empty() && step / width_ <= points_.back().first_step / width_) {
    absorb(points_.back(), point);
    return;
  }
  points_.push_back(point);
  while (points_.size() > capacity_) {
    double_width();
  }
}

void Series::double_width() {
  width_ *= 2;
  std::size_t kept = 0;
  for (std::size_t i = 1; i < points_.size(); ++i) {
    if (points_[i].first_step / width_ == points_[kept].first_step / width_) {
      absorb(points_[kept], points_[i]);
    } else {
      points_[++kept] = points_[i];
    }
  }
  points_.resize(kept + 1);
}

double Series::forget_after(std::int64_t step) {
  double forgotten = 0;
  while (!points_.empty() && points_.back().first_step > step) {
    forgotten += points_.back().sum;
    points_.pop_back();
  }
  return forgotten;
}

double Series::sum() const {
  double sum = 0;
  for (const Point& point : points_) {
    sum += point.sum;
  }
  return sum;
}

double Series::mean() const {
  std::int64_t count = 0;
  for (const Point& point : points_) {
    count += point.count;
  }
  return count > 0 ? sum() / static_cast<double>(count) : 0;
}

double Series::most() const {
  double most = points_.empty() ? 0 : points_.front().most;
  for (const Point& point : points_) {
    most = std::max(most, point.most);
  }
  return most;
}

std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most) {
  const std::size_t together = (points.size() + most - 1) / std::max<std::size_t>(most, 1);
  std::vector<Point> fewer;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i % std::max<std::size_t>(together, 1) == 0) {
      fewer.push_back(points[i]);
    } else {
      absorb(fewer.back(), points[i]);
    }
  }
  return fewer;
}

}  // namespace rollcall::report
