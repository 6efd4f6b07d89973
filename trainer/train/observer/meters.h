#pragma once

#include <memory>
#include <string>

#include "trainer/metrics/energy.h"
#include "trainer/metrics/gpu_meter.h"
#include "trainer/metrics/rank_times.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// What this rank's GPU and, where it is the first rank of its node, the node use. Drivers are asked at most once a
/// second, and within a limit, in threads that are left behind with the meter where one in trouble takes longer: it is
/// given up then. Main thread only.
class Meters {
 public:
  explicit Meters(const World& world);

  /// What the energy is used by, for people; empty: it is not measured.
  [[nodiscard]] std::string energy_of() const { return energy_ ? energy_->covers() : ""; }
  // Both add what was used since they were last asked, and return a warning where the meter is given up, else nothing.
  [[nodiscard]] std::string add_energy(metrics::RankTimes& times);
  [[nodiscard]] std::string add_gpu(metrics::RankTimes& times);
  /// What the GPU did since it was last asked is none of the training's. The same warning.
  [[nodiscard]] std::string leave_out_gpu();

 private:
  std::shared_ptr<metrics::EnergyMeter> energy_;  ///< null: none
  double energy_read_ = 0;                        ///< when, as seconds_now()
  std::shared_ptr<metrics::GpuMeter> gpu_;        ///< null: none
  double gpu_read_ = 0;                           ///< when, as seconds_now()
};

}  // namespace rollcall::train
