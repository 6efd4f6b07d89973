#include "trainer/metrics/energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"

namespace rollcall::metrics {
namespace {

namespace fs = std::filesystem;

std::optional<double> number_in(const fs::path& file) {
  std::ifstream stream(file);
  double number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

std::optional<double> joules(const EnergyCounter& counter) {
  const std::optional<double> number = number_in(counter.file);
  return number ? std::optional(*number * counter.joules_of_unit) : std::nullopt;
}

void add_if_readable(EnergyCounter counter, std::vector<EnergyCounter>& counters) {
  if (const std::optional<double> now = joules(counter)) {
    counter.last = *now;
    counters.push_back(std::move(counter));
  }
}

/// Returns zones that do not contain each other: a processor's zone contains its cores, "psys" all processors.
std::vector<EnergyCounter> powercap_counters(const fs::path& folder) {
  constexpr double kMicro = 1e-6;
  std::vector<EnergyCounter> counters;
  for (const fs::path& zone : entries_of(folder)) {
    const bool is_rapl = zone.filename().string().starts_with("intel-rapl:");  // also for AMD
    const std::string name = first_line_of(zone / "name");
    if (is_rapl && (name.starts_with("package") || name == "dram")) {
      add_if_readable({.file = zone / "energy_uj",
                       .joules_of_unit = kMicro,
                       .range = kMicro * number_in(zone / "max_energy_range_uj").value_or(0)},
                      counters);
    }
  }
  return counters;
}

}  // namespace

EnergyMeter::EnergyMeter(std::shared_ptr<const Nvml> nvml, const std::string& root) : nvml_(std::move(nvml)) {
  add_if_readable({.file = root + "/sys/cray/pm_counters/energy"}, counters_);
  if (!counters_.empty()) {
    covers_ = "node";
    return;
  }
  counters_ = powercap_counters(root + "/sys/class/powercap");
  covers_ = counters_.empty() ? "" : "processors and memory";
  for (Nvml::Device device : nvml_ ? nvml_->devices() : std::vector<Nvml::Device>()) {
    if (const auto millijoules = nvml_->millijoules(device)) {
      gpus_.push_back({device, *millijoules});
    }
  }
  if (!gpus_.empty()) {
    covers_ += (covers_.empty() ? "" : ", ") + counted(gpus_.size(), "GPU");
  }
}

double EnergyMeter::take() {
  constexpr double kMilli = 1e-3;
  double used = 0;
  for (Gpu& gpu : gpus_) {
    const std::uint64_t now = nvml_->millijoules(gpu.device).value_or(gpu.last);
    used += now >= gpu.last ? kMilli * static_cast<double>(now - gpu.last) : 0;  // else its driver was reloaded
    gpu.last = now;
  }
  for (EnergyCounter& counter : counters_) {
    const std::optional<double> now = joules(counter);
    if (!now) {
      continue;
    }
    const double since = *now - counter.last;
    used += since >= 0 ? since : counter.range > 0 ? since + counter.range : 0;
    counter.last = *now;
  }
  return used;
}

}  // namespace rollcall::metrics
