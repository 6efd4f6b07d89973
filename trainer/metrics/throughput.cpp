#include "trainer/metrics/throughput.h"

#include <numeric>

namespace rollcall::metrics {

void Throughput::step_done(double now, std::int64_t images) {
  steps_.push_back({now, images});
  if (steps_.size() > window_steps_ + 1) {
    steps_.pop_front();
  }
}

std::optional<double> Throughput::images_per_second() const {
  if (steps_.size() < 2) {
    return std::nullopt;
  }
  const double seconds = steps_.back().end - steps_.front().end;
  if (seconds <= 0) {
    return std::nullopt;
  }
  const auto images = std::accumulate(steps_.begin() + 1, steps_.end(), std::int64_t{0},
                                      [](std::int64_t sum, const Step& step) { return sum + step.images; });
  return static_cast<double>(images) / seconds;
}

}  // namespace rollcall::metrics
