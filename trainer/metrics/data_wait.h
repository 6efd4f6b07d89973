#pragma once

#include <string>

namespace rollcall::metrics {

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
