#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/metrics/nvml.h"

namespace rollcall::metrics {

/// What a GPU did over some time, in sums, so that times can be added up. Not a number: not known. Plain value.
struct GpuUse {
  double seconds = 0;       ///< that it was watched; 0: nothing is known
  double busy_seconds = 0;  ///< of them, in which kernels ran
  double joules = 0;
  double memory = 0;        ///< bytes in use at most, by whomever
  double memory_total = 0;  ///< bytes

  GpuUse& operator+=(const GpuUse& other);
  // Of the time that it was watched; not a number where it was not.
  [[nodiscard]] double load() const { return busy_seconds / seconds; }
  [[nodiscard]] double watts() const { return joules / seconds; }
};

/// What the GPUs of all ranks do. Not a number: not known. Plain value.
struct GpusNow {
  double load = std::nan("");          ///< mean over the ranks that know it, in [0, 1]
  double memory = std::nan("");        ///< bytes in use, of the GPU with the most
  double memory_total = std::nan("");  ///< bytes of that one
  double watts = std::nan("");         ///< of all together: known where every rank knows its own

  /// `of_ranks`: what each last said.
  [[nodiscard]] static GpusNow of(const std::vector<GpuUse>& of_ranks);
  /// "GPU 97 %  71.2/79.6 GiB  2736 W", of what is known; may be empty.
  [[nodiscard]] std::string text() const;
};

/// Watches one GPU: the one that a rank computes on. Not thread-safe.
class GpuMeter {
 public:
  /// Begins at `now`, seconds of any monotonic clock. Nothing: NVML is not there (null), or does not know it.
  [[nodiscard]] static std::optional<GpuMeter> of(const std::shared_ptr<const Nvml>& nvml, const std::string& uuid,
                                                  double now);

  /// Since the last call, or since it was made. The load is the one of the last moment. Watts are those of the counter
  /// of energy; where there is none, those of the last moment. Costs a few calls of the driver, and waits for no
  /// kernel.
  [[nodiscard]] GpuUse take(double now);

 private:
  GpuMeter(std::shared_ptr<const Nvml> nvml, Nvml::Device device, double now);

  std::shared_ptr<const Nvml> nvml_;
  Nvml::Device device_;
  double taken_;                              ///< when
  std::optional<std::uint64_t> millijoules_;  ///< then
};

}  // namespace rollcall::metrics
