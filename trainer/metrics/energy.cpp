#include "trainer/metrics/energy.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

namespace rollcall::metrics {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

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

/// Zones that do not contain each other: a processor's contains its cores, "psys" all processors.
std::vector<EnergyCounter> powercap_counters(const fs::path& folder) {
  constexpr double kMicro = 1e-6;
  std::vector<EnergyCounter> counters;
  std::error_code error;
  for (fs::directory_iterator zone(folder, error), end; !error && zone != end; zone.increment(error)) {
    const bool is_rapl = zone->path().filename().string().starts_with("intel-rapl:");  // AMD's have this name as well
    const std::string name = first_line(zone->path() / "name");
    if (is_rapl && (name.starts_with("package") || name == "dram")) {
      add_if_readable({.file = zone->path() / "energy_uj",
                       .joules_of_unit = kMicro,
                       .range = kMicro * number_in(zone->path() / "max_energy_range_uj").value_or(0)},
                      counters);
    }
  }
  return counters;
}

}  // namespace

/// The energy of all GPUs that NVML shows to this process. Not run on hardware.
class EnergyMeter::Gpus {
 public:
  explicit Gpus(const char* library) : library_(::dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
    const auto init = function<int()>("nvmlInit_v2");
    const auto count_of = function<int(unsigned*)>("nvmlDeviceGetCount_v2");
    const auto handle_of = function<int(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2");
    energy_of_ = function<int(void*, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption");
    unsigned count = 0;
    if (init == nullptr || count_of == nullptr || handle_of == nullptr || energy_of_ == nullptr || init() != kSuccess ||
        count_of(&count) != kSuccess) {
      return;
    }
    for (unsigned index = 0; index < count; ++index) {
      void* device = nullptr;
      unsigned long long millijoules = 0;
      if (handle_of(index, &device) == kSuccess && energy_of_(device, &millijoules) == kSuccess) {
        devices_.emplace_back(device, millijoules);
      }
    }
  }
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;
  ~Gpus() = default;  // the library stays: its threads may be at work

  [[nodiscard]] std::size_t count() const { return devices_.size(); }
  [[nodiscard]] double take() {
    constexpr double kMilli = 1e-3;
    double used = 0;
    for (auto& [device, last] : devices_) {
      unsigned long long now = 0;
      if (energy_of_(device, &now) == kSuccess) {
        used += now >= last ? kMilli * static_cast<double>(now - last) : 0;  // else its driver was loaded anew
        last = now;
      }
    }
    return used;
  }

 private:
  static constexpr int kSuccess = 0;

  template <typename Signature>
  [[nodiscard]] Signature* function(const char* name) const {
    return library_ == nullptr ? nullptr : reinterpret_cast<Signature*>(::dlsym(library_, name));
  }

  void* library_;
  int (*energy_of_)(void*, unsigned long long*) = nullptr;
  std::vector<std::pair<void*, unsigned long long>> devices_;  ///< and its last reading
};

EnergyMeter::EnergyMeter(const char* nvml, const std::string& root) {
  add_if_readable({.file = root + "/sys/cray/pm_counters/energy"}, counters_);
  if (!counters_.empty()) {
    covers_ = "node";
    return;
  }
  counters_ = powercap_counters(root + "/sys/class/powercap");
  covers_ = counters_.empty() ? "" : "processors and memory";
  if (nvml != nullptr) {
    gpus_ = std::make_unique<Gpus>(nvml);
  }
  if (gpus_ && gpus_->count() > 0) {
    covers_ += fmt::format("{}{} GPU{}", covers_.empty() ? "" : ", ", gpus_->count(), gpus_->count() == 1 ? "" : "s");
  }
}

EnergyMeter::EnergyMeter(EnergyMeter&&) noexcept = default;
EnergyMeter& EnergyMeter::operator=(EnergyMeter&&) noexcept = default;
EnergyMeter::~EnergyMeter() = default;

double EnergyMeter::take() {
  double used = gpus_ ? gpus_->take() : 0;
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
