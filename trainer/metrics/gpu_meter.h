#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/metrics/nvml.h"

namespace rollcall::metrics {

/// The use of a GPU over some time, in sums that can be added up. NaN: unknown. Plain value.
struct GpuUse {
  double seconds = 0;       ///< measured time; 0: nothing is known
  double busy_seconds = 0;  ///< the part in which kernels ran
  double joules = 0;
  double memory = 0;        ///< the most bytes in use, by all processes
  double memory_total = 0;  ///< bytes

  GpuUse& operator+=(const GpuUse& other);
  // Means over the measured time; NaN without one.
  [[nodiscard]] double load() const { return busy_seconds / seconds; }
  [[nodiscard]] double watts() const { return joules / seconds; }
};

/// The use of all ranks' GPUs. NaN: unknown. Plain value.
struct GpuSummary {
  double load = std::nan("");          ///< mean over the ranks that know it, in [0, 1]
  double memory = std::nan("");        ///< bytes in use on the GPU with the most
  double memory_total = std::nan("");  ///< bytes of that GPU
  double watts = std::nan("");         ///< sum of all GPUs; NaN unless every rank knows its own

  /// Summarizes the last values of all ranks.
  [[nodiscard]] static GpuSummary of(const std::vector<GpuUse>& of_ranks);
  /// Returns the known values: "GPU 97 %  71.2/79.6 GiB  2736 W"; may be empty.
  [[nodiscard]] std::string text() const;
};

/// Measures the GPU that a rank computes on. Not thread-safe.
class GpuMeter {
 public:
  /// Begins at `now`, in seconds of any monotonic clock. Nothing where NVML is missing (null) or does not know the GPU.
  [[nodiscard]] static std::optional<GpuMeter> of(const std::shared_ptr<const Nvml>& nvml, const std::string& uuid,
                                                  double now);

  /// Returns the use since the last call, or since the construction. The load is the current one. Watts come from the
  /// energy counter, or are the current ones without a counter. Makes a few calls of the driver and does not wait for
  /// kernels.
  [[nodiscard]] GpuUse take(double now);

 private:
  GpuMeter(std::shared_ptr<const Nvml> nvml, Nvml::Device device, double now);

  std::shared_ptr<const Nvml> nvml_;
  Nvml::Device device_;
  double taken_;                              ///< time of the last call, in seconds
  std::optional<std::uint64_t> millijoules_;  ///< the energy counter at that time; unset: unknown
};

}  // namespace rollcall::metrics
