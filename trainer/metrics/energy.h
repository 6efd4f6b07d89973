#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/metrics/nvml.h"

namespace rollcall::metrics {

/// An energy counter of the kernel.
struct EnergyCounter {
  std::string file;           ///< microjoules, or joules in the first word ("1234 J 1600000000 us")
  double joules_of_unit = 1;  ///< joules per unit of the file
  double range = 0;           ///< joules at which the counter wraps to 0; 0: never
  double last = 0;            ///< joules at the last reading
};

/// Measures the energy of this node with the first of these that exists and this user may read:
/// - Cray's counter of the whole node, /sys/cray/pm_counters/energy (HPE Cray EX, "Power Monitoring Counters");
/// - the counters of processors and memory, /sys/class/powercap/intel-rapl:* (Linux, Documentation/power/powercap),
///   which many sites hide from users since CVE-2020-8694, and those of this process's NVIDIA GPUs (NVML).
/// Not thread-safe.
class EnergyMeter {
 public:
  /// `nvml` is null where GPUs shall not be read, because that would wake them. `root` is the prefix of /sys.
  explicit EnergyMeter(std::shared_ptr<const Nvml> nvml, const std::string& root = "");

  /// Returns what is measured: "node", "processors and memory", "processors and memory, 4 GPUs"; empty: nothing.
  [[nodiscard]] const std::string& covers() const { return covers_; }
  /// Returns the joules since the last call, or since the construction. Reads each counter once.
  [[nodiscard]] double take();

 private:
  /// A GPU with an energy counter.
  struct Gpu {
    Nvml::Device device;
    std::uint64_t last = 0;  ///< millijoules at the last reading
  };

  std::shared_ptr<const Nvml> nvml_;
  std::vector<EnergyCounter> counters_;
  std::vector<Gpu> gpus_;
  std::string covers_;
};

}  // namespace rollcall::metrics
