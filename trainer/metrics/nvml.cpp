#include "trainer/metrics/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>

#include "runtime/base/time_limit.h"

namespace rollcall::metrics {
namespace {

constexpr int kNvmlSuccess = 0;
constexpr int kNvmlGpuIsLost = 15;  // "has fallen off the bus or has otherwise become inaccessible"
constexpr int kNvmlResetRequired = 16;
constexpr int kNvmlUnknown = 999;

/// Calls a function of the library. Returns whether it exists and succeeds.
template <typename... Parameters, typename... Arguments>
bool succeeds(int (*function)(Parameters...), Arguments... arguments) {
  return function != nullptr && function(arguments...) == kNvmlSuccess;
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

std::shared_ptr<const Nvml> Nvml::open(const char* library) {
  void* const opened = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    return nullptr;
  }
  std::shared_ptr<const Nvml> nvml(new Nvml(opened));
  return succeeds(nvml->init_) ? nvml : nullptr;
}

Nvml::Nvml(void* library) {
  find(library, "nvmlInit_v2", init_);
  find(library, "nvmlDeviceGetCount_v2", count_);
  find(library, "nvmlDeviceGetHandleByIndex_v2", by_index_);
  find(library, "nvmlDeviceGetHandleByUUID", by_uuid_);
  find(library, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", whole_);
  find(library, "nvmlDeviceGetTotalEnergyConsumption", energy_);
  find(library, "nvmlDeviceGetUtilizationRates", utilisation_);
  find(library, "nvmlDeviceGetMemoryInfo", memory_);
  find(library, "nvmlDeviceGetPowerUsage", power_);
  find(library, "nvmlErrorString", text_);
}

std::vector<Nvml::Device> Nvml::devices() const {
  unsigned count = 0;
  std::vector<Device> devices;
  for (unsigned index = 0; succeeds(count_, &count) && index < count; ++index) {
    Device device = nullptr;
    if (succeeds(by_index_, index, &device)) {
      devices.push_back(device);
    }
  }
  return devices;
}

std::optional<Nvml::Device> Nvml::device(const std::string& uuid) const {
  Device device = nullptr;
  return succeeds(by_uuid_, uuid.c_str(), &device) ? std::optional(device) : std::nullopt;
}

Nvml::Device Nvml::whole(Device device) const {
  Device gpu = nullptr;
  return succeeds(whole_, device, &gpu) ? gpu : device;
}

std::optional<std::uint64_t> Nvml::millijoules(Device device) const {
  unsigned long long used = 0;
  return succeeds(energy_, whole(device), &used) ? std::optional<std::uint64_t>(used) : std::nullopt;
}

GpuReading Nvml::read(Device device) const {
  constexpr double kPerCent = 1e-2;
  constexpr double kMilli = 1e-3;
  GpuReading reading;
  if (Utilisation now{}; succeeds(utilisation_, device, &now)) {
    reading.load = kPerCent * now.gpu;
  }
  if (Memory now{}; succeeds(memory_, device, &now)) {
    reading.memory = static_cast<double>(now.used);
    reading.memory_total = static_cast<double>(now.total);
  }
  if (unsigned milliwatts = 0; succeeds(power_, whole(device), &milliwatts)) {
    reading.watts = kMilli * milliwatts;
  }
  return reading;
}

std::string Nvml::trouble() const {
  std::string all;
  if (by_index_ == nullptr || memory_ == nullptr || text_ == nullptr) {
    return all;
  }
  unsigned count = 0;
  for (unsigned index = 0; succeeds(count_, &count) && index < count; ++index) {
    Device device = nullptr;
    Memory memory{};
    int status = by_index_(index, &device);
    const bool unknown = status == kNvmlUnknown;  // nvidia-smi's "Unable to determine the device handle"
    status = status == kNvmlSuccess ? memory_(device, &memory) : status;
    if (unknown || status == kNvmlGpuIsLost || status == kNvmlResetRequired) {
      all += fmt::format("{}GPU {}: {}", all.empty() ? "" : ", ", index, text_(status));
    }
  }
  return all;
}

std::string gpu_trouble() {
  constexpr std::chrono::seconds kPatience{2};
  const std::string text = run_with_timeout(kPatience, [] {
                             const std::shared_ptr<const Nvml> nvml = Nvml::open();
                             return nvml ? nvml->trouble() : std::string();
                           }).value_or("");
  return text.empty() ? "" : "; NVML says: " + text;
}

}  // namespace rollcall::metrics
