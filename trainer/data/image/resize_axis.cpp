#include "trainer/data/image/resize_axis.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace rollcall::data {
namespace {

/// Where the triangle around an output position is not 0, in Pillow's rounding.
AxisRange support_of(double centre, double support, int in) {
  const int first = std::max(0, static_cast<int>(centre - support + 0.5));
  const int last = std::min(in, static_cast<int>(centre + support + 0.5));
  return {first, last - first};
}

double centre_of(int position, double scale) { return (position + 0.5) * scale; }

}  // namespace

AxisRange range_of(const AxisRequest& request) {
  const double scale = static_cast<double>(request.in) / request.out;
  const double support = std::max(scale, 1.0);
  const AxisRange low = support_of(centre_of(request.begin, scale), support, request.in);
  const AxisRange high = support_of(centre_of(request.begin + request.count - 1, scale), support, request.in);
  return {low.first, high.first + high.count - low.first};
}

void ResizeAxis::plan(const AxisRequest& request) {
  if (request == planned_) {
    return;
  }
  planned_ = request;
  const double scale = static_cast<double>(request.in) / request.out;
  const double support = std::max(scale, 1.0);
  taps = std::min(static_cast<int>(std::ceil(2 * support)), request.in);  // pixel centres within 2 * support
  const auto positions = static_cast<std::size_t>(request.count);
  first.resize(positions);
  count.resize(positions);
  weights.assign(positions * static_cast<std::size_t>(taps), 0.0F);
  const int origin = range_of(request).first;
  for (int position = 0; position < request.count; ++position) {
    plan_position(position, scale, support, origin);
  }
}

void ResizeAxis::plan_position(int position, double scale, double support, int origin) {
  const double centre = centre_of(planned_.begin + position, scale);
  AxisRange range = support_of(centre, support, planned_.in);
  const double inverse_support = 1 / support;
  const auto distance_to = [&](int i) { return std::abs(i - centre + 0.5); };
  const auto weight_at = [&](int i) { return 1 - distance_to(i) * inverse_support; };
  while (range.count > 1 && distance_to(range.first) >= support) {
    ++range.first;
    --range.count;
  }
  while (range.count > 1 && distance_to(range.first + range.count - 1) >= support) {
    --range.count;
  }
  double sum = 0;
  for (int i = 0; i < range.count; ++i) {
    sum += weight_at(range.first + i);
  }
  const double inverse_sum = 1 / sum;
  float* to = weights.data() + static_cast<std::ptrdiff_t>(position) * taps;
  for (int i = 0; i < range.count; ++i) {
    to[i] = static_cast<float>(weight_at(range.first + i) * inverse_sum);
  }
  first[static_cast<std::size_t>(position)] = range.first - origin;
  count[static_cast<std::size_t>(position)] = range.count;
}

}  // namespace rollcall::data
