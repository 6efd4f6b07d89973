#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace rollcall::metrics {

/// Images per second over the latest steps. The first step only starts the clock: it carries the start-up costs
/// (allocation, algorithm choice, the first prefetch). The caller brings the time, so that tests and replays need no
/// clock. One thread.
class Throughput {
 public:
  explicit Throughput(std::size_t window_steps = 50) : window_steps_(window_steps) {}

  /// A step ended at `now` (seconds of any monotonic clock), `images` (of all ranks) having passed in it.
  void step_done(double now, std::int64_t images);
  /// Begins anew: the next step only starts the clock. For pauses that are no training, such as validation.
  void restart() { steps_.clear(); }
  /// Nothing before the second step since the start.
  [[nodiscard]] std::optional<double> images_per_second() const;

 private:
  struct Step {
    double end;
    std::int64_t images;
  };

  std::size_t window_steps_;
  std::deque<Step> steps_;  ///< the front is the window's beginning: its images lie before it
};

}  // namespace rollcall::metrics
