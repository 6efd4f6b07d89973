#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/metrics/nvml.h"

namespace rollcall::metrics {

/// A counter of energy: what it has counted so far, and where it starts anew.
struct EnergyCounter {
  std::string file;           ///< microjoules, or joules in the first word ("1234 J 1600000000 us")
  double joules_of_unit = 1;  ///< of a number there
  double range = 0;           ///< joules after which it begins with 0 again; 0: never
  double last = 0;            ///< joules, as read before
};

/// What this node uses, by the first of these that it has and this user may read:
/// - Cray's counter of the whole node, /sys/cray/pm_counters/energy (HPE Cray EX, "Power Monitoring Counters");
/// - those of its processors and memory, /sys/class/powercap/intel-rapl:* (Linux, Documentation/power/powercap), which
///   many sites keep from users since CVE-2020-8694, and those of its NVIDIA GPUs that this process sees (NVML).
/// Not thread-safe.
class EnergyMeter {
 public:
  /// `nvml`: null leaves GPUs alone, which asking would wake. `root`: before /sys.
  explicit EnergyMeter(std::shared_ptr<const Nvml> nvml, const std::string& root = "");

  /// What is counted, for people: "node", "processors and memory", "processors and memory, 4 GPUs"; empty: nothing.
  [[nodiscard]] const std::string& covers() const { return covers_; }
  /// Joules since the last call, or since it was made. Costs a read of each counter.
  [[nodiscard]] double take();

 private:
  /// A GPU whose driver counts.
  struct Gpu {
    Nvml::Device device;
    std::uint64_t last = 0;  ///< millijoules, as read before
  };

  std::shared_ptr<const Nvml> nvml_;
  std::vector<EnergyCounter> counters_;
  std::vector<Gpu> gpus_;
  std::string covers_;
};

}  // namespace rollcall::metrics
