#include "trainer/metrics/gpu_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rollcall::metrics {

GpuUse& GpuUse::operator+=(const GpuUse& other) {
  seconds += other.seconds;
  busy_seconds += other.busy_seconds;
  joules += other.joules;
  // A value that is unknown once is unknown for the whole time, as in the sums.
  memory = std::isnan(other.memory) ? other.memory : std::max(memory, other.memory);
  memory_total = std::isnan(other.memory_total) ? other.memory_total : std::max(memory_total, other.memory_total);
  return *this;
}

GpuSummary GpuSummary::of(const std::vector<GpuUse>& of_ranks) {
  GpuSummary now;
  double loads = 0;
  int known = 0;
  double watts = 0;
  for (const GpuUse& rank : of_ranks) {
    if (const double load = rank.load(); !std::isnan(load)) {
      loads += load;
      known += 1;
    }
    watts += rank.watts();
    if (rank.seconds > 0 && !(rank.memory <= now.memory) && !std::isnan(rank.memory)) {
      now.memory = rank.memory;
      now.memory_total = rank.memory_total;
    }
  }
  now.load = loads / known;
  now.watts = of_ranks.empty() ? now.watts : watts;
  return now;
}

std::string GpuSummary::text() const {
  constexpr double kGibibyte = 1 << 30;
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "GPU " : "  ") + part; };
  if (!std::isnan(load)) {
    add(fmt::format("{:.0f} %", 100 * load));
  }
  if (!std::isnan(memory)) {
    add(fmt::format("{:.1f}/{:.1f} GiB", memory / kGibibyte, memory_total / kGibibyte));
  }
  if (!std::isnan(watts)) {
    add(fmt::format("{:.0f} W", watts));
  }
  return text;
}

std::optional<GpuMeter> GpuMeter::of(const std::shared_ptr<const Nvml>& nvml, const std::string& uuid, double now) {
  const auto device = nvml ? nvml->device(uuid) : std::nullopt;
  return device ? std::optional(GpuMeter(nvml, *device, now)) : std::nullopt;
}

GpuMeter::GpuMeter(std::shared_ptr<const Nvml> nvml, Nvml::Device device, double now)
    : nvml_(std::move(nvml)), device_(device), taken_(now), millijoules_(nvml_->millijoules(device)) {}

GpuUse GpuMeter::take(double now) {
  constexpr double kMilli = 1e-3;
  const double seconds = now - std::exchange(taken_, now);
  const GpuReading reading = nvml_->read(device_);
  const auto before = std::exchange(millijoules_, nvml_->millijoules(device_));
  const bool counted = before && millijoules_ && *millijoules_ >= *before;  // else its driver was reloaded
  return {.seconds = seconds,
          .busy_seconds = reading.load * seconds,
          .joules = counted ? kMilli * static_cast<double>(*millijoules_ - *before) : reading.watts * seconds,
          .memory = reading.memory,
          .memory_total = reading.memory_total};
}

}  // namespace rollcall::metrics
