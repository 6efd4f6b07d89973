#include "trainer/metrics/tensorboard/event.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rollcall::metrics::tensorboard {
namespace {

// The exponent and the first two fraction bits of a binary32 number the buckets, four per power of two, so that a shift
// gives the bucket of a number.
constexpr int kShift = 23 - 2;
constexpr std::size_t kRanges = std::size_t{1} << (31 - kShift);
using Counts = std::array<std::uint64_t, kRanges>;

std::size_t range_of(float magnitude) { return std::bit_cast<std::uint32_t>(magnitude) >> kShift; }

/// Returns the smallest magnitude of a bucket; for the first one after all finite numbers, the largest finite number.
double begin_of(std::size_t range) {
  const float begin = std::bit_cast<float>(static_cast<std::uint32_t>(range << kShift));
  return std::isfinite(begin) ? begin : std::numeric_limits<float>::max();
}

void add_bucket(Histogram& histogram, double begin, double limit, std::uint64_t count) {
  if (count == 0) {
    return;
  }
  if (!histogram.limits.empty() && histogram.limits.back() < begin) {
    histogram.limits.push_back(begin);
    histogram.counts.push_back(0);
  }
  histogram.limits.push_back(limit);
  histogram.counts.push_back(static_cast<double>(count));
}

}  // namespace

Histogram histogram_of(std::span<const float> values) {
  Counts below_zero{};
  Counts others{};
  Histogram histogram{.min = std::numeric_limits<double>::infinity(), .max = -std::numeric_limits<double>::infinity()};
  for (const float value : values) {
    if (!std::isfinite(value)) {
      continue;
    }
    (value < 0 ? below_zero : others)[range_of(std::abs(value))] += 1;
    histogram.min = std::min(histogram.min, double{value});
    histogram.max = std::max(histogram.max, double{value});
    histogram.count += 1;
    histogram.sum += value;
    histogram.sum_of_squares += double{value} * value;
  }
  if (histogram.count == 0) {
    return {};
  }
  for (std::size_t range = kRanges - 1; range-- > 0;) {
    add_bucket(histogram, -begin_of(range + 1), -begin_of(range), below_zero[range]);
  }
  for (std::size_t range = 0; range + 1 < kRanges; ++range) {
    add_bucket(histogram, begin_of(range), begin_of(range + 1), others[range]);
  }
  return histogram;
}

}  // namespace rollcall::metrics::tensorboard
