#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace rollcall::metrics {

/// Computes images per second over the latest steps. The first step only starts the clock, because it includes start-up
/// costs (allocation, algorithm choice, the first prefetch). The caller passes the time, so that tests need no clock.
/// One thread.
class Throughput {
 public:
  explicit Throughput(std::size_t latest_steps = 50) : latest_steps_(latest_steps) {}

  /// Adds a step with `images` of all ranks that ended at `now` (seconds of any monotonic clock).
  void step_done(double now, std::int64_t images);
  /// Starts again with the next step, after a pause of training such as validation.
  void restart() { steps_.clear(); }
  /// Returns the rate; nothing before the second step.
  [[nodiscard]] std::optional<double> images_per_second() const;

 private:
  struct Step {
    double end;
    std::int64_t images;
  };

  std::size_t latest_steps_;
  std::deque<Step> steps_;  ///< of the front only the end is used, when the next step began
};

/// The time that training waited for batches. Plain value.
struct DataWait {
  double waited = 0;   ///< seconds, the mean over the ranks
  double elapsed = 0;  ///< seconds of the same steps
  double loading = 0;  ///< seconds that all workers of this rank were busy
  int workers = 0;     ///< workers of this rank; 0: loading is part of waiting

  DataWait& operator+=(const DataWait& other) {
    waited += other.waited;
    elapsed += other.elapsed;
    loading += other.loading;
    workers = other.workers;
    return *this;
  }

  /// These return fractions in [0, 1], and 0 where no time has elapsed.
  [[nodiscard]] double fraction() const { return elapsed > 0 ? waited / elapsed : 0; }
  [[nodiscard]] double utilisation() const { return elapsed > 0 && workers > 0 ? loading / (elapsed * workers) : 0; }
};

/// Returns the advice at the end of a training: "input-bound: 23 % of the time waited for data; try ...". Empty where
/// it is less than 5 %, or less than a second.
[[nodiscard]] std::string input_bound_advice(const DataWait& wait, bool cpus_left);

}  // namespace rollcall::metrics
