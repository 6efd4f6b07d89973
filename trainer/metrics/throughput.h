#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace rollcall::metrics {

/// Images per second over the latest steps. The first step only starts the clock: it carries the start-up costs
/// (allocation, algorithm choice, the first prefetch). The caller brings the time, so that tests and replays need no
/// clock. One thread.
class Throughput {
 public:
  explicit Throughput(std::size_t latest_steps = 50) : latest_steps_(latest_steps) {}

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

  std::size_t latest_steps_;
  std::deque<Step> steps_;  ///< the front only tells when the next one began: its images lie before it
};

/// How long training waited for its next batch, of how long in all. Plain value.
struct DataWait {
  double waited = 0;   ///< seconds, the mean over the ranks
  double elapsed = 0;  ///< seconds, of the same steps
  double loading = 0;  ///< seconds that this rank's workers were busy, all together
  int workers = 0;     ///< of this rank; 0: loading is part of waiting

  DataWait& operator+=(const DataWait& other) {
    waited += other.waited;
    elapsed += other.elapsed;
    loading += other.loading;
    workers = other.workers;
    return *this;
  }

  /// Fractions in [0, 1]; 0 where nothing has elapsed.
  [[nodiscard]] double fraction() const { return elapsed > 0 ? waited / elapsed : 0; }
  [[nodiscard]] double utilisation() const { return elapsed > 0 && workers > 0 ? loading / (elapsed * workers) : 0; }
};

/// What to tell the user at the end: "input-bound: 23 % of the time waited for data; try ...", or nothing where it is
/// less than one part in twenty, or less than a second.
[[nodiscard]] std::string input_bound_advice(const DataWait& wait, bool cpus_left);

}  // namespace rollcall::metrics
