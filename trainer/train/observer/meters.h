#pragma once

#include <memory>
#include <optional>
#include <string>

#include "trainer/metrics/energy.h"
#include "trainer/metrics/gpu_meter.h"
#include "trainer/metrics/rank_times.h"
#include "trainer/train/job_context.h"

namespace rollcall::train {

/// Measures what this rank's GPU and, on the first rank of a node, the node uses. Drivers are read at most once a
/// second, with a time limit, in threads that are abandoned together with the meter if the driver does not respond.
/// Main thread only.
class Meters {
 public:
  explicit Meters(const JobContext& context);

  /// Returns the components whose energy is measured, for people; empty: it is not measured.
  [[nodiscard]] std::string energy_of() const { return energy_ ? energy_->covers() : ""; }
  /// Returns the joules since the last reading; nothing where they are not measured, or a counter does not respond.
  [[nodiscard]] std::optional<double> take_joules();
  // Both add the use since the previous reading, and return a warning if the meter is abandoned, else an empty text.
  [[nodiscard]] std::string add_energy(metrics::RankTimes& times);
  [[nodiscard]] std::string add_gpu(metrics::RankTimes& times);
  /// Discards the GPU's use since the previous reading, which is not of training. Returns the same warning.
  [[nodiscard]] std::string leave_out_gpu();

 private:
  std::shared_ptr<metrics::EnergyMeter> energy_;  ///< null: not measured
  double energy_read_ = 0;                        ///< seconds_now() of the previous reading
  std::shared_ptr<metrics::GpuMeter> gpu_;        ///< null: not measured
  double gpu_read_ = 0;                           ///< seconds_now() of the previous reading
};

}  // namespace rollcall::train
