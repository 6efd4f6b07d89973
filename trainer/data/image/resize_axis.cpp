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
  // So many pixel centres lie within the triangle; at the same size every position is one pixel.
  taps = request.in == request.out ? 1 : std::min(static_cast<int>(std::ceil(2 * support)), request.in);
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
  const int begin = support_of(centre, support, planned_.in).first;
  const double nearest = begin - centre + 0.5;
  const double inverse_support = 1 / support;
  float* to = weights.data() + static_cast<std::ptrdiff_t>(position) * taps;
  double sum = 0;
  int positive = 0;  // taps up to the last one above 0
  // As many turns for every position but the last ones: what lies outside the triangle gets 0 without a branch.
  const int turns = std::min(taps, planned_.in - begin);
  for (int k = 0; k < turns; ++k) {
    const double weight = std::max(0.0, 1 - std::abs(nearest + k) * inverse_support);
    to[k] = static_cast<float>(weight);
    sum += weight;
    positive = weight > 0 ? k + 1 : positive;
  }
  const auto inverse_sum = static_cast<float>(1 / sum);
  for (int k = 0; k < turns; ++k) {
    to[k] *= inverse_sum;
  }
  first[static_cast<std::size_t>(position)] = begin - origin;
  count[static_cast<std::size_t>(position)] = positive;
}

}  // namespace rollcall::data
