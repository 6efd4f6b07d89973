#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rollcall::metrics {

/// The current state of a GPU. NaN: unknown.
struct GpuReading {
  double load = std::nan("");          ///< share of the last second, or 1/6 s, in which kernels ran, in [0, 1]
  double memory = std::nan("");        ///< bytes in use, by all processes
  double memory_total = std::nan("");  ///< bytes
  double watts = std::nan("");         ///< power of the whole board, also for a MIG instance
};

/// NVIDIA's management library (NVML), which belongs to the driver. It needs neither CUDA nor GPU memory. Values that
/// the driver lacks or hides from this user are unknown, which is not an error. Functions and structures: NVIDIA's NVML
/// API Reference. Immutable and as thread-safe as NVML. Not run on hardware.
class Nvml {
 public:
  using Device = void*;

  static constexpr const char* kLibrary = "libnvidia-ml.so.1";

  /// Loads the library; null where it or the driver is missing. It is never unloaded, because it may have threads.
  [[nodiscard]] static std::shared_ptr<const Nvml> open(const char* library = kLibrary);

  /// Returns all GPUs that this process may see.
  [[nodiscard]] std::vector<Device> devices() const;
  /// Returns the GPU with this UUID, "GPU-8e4c1b7a-...", or the MIG instance, "MIG-...". NVML's indices differ from
  /// CUDA's.
  [[nodiscard]] std::optional<Device> device(const std::string& uuid) const;

  /// Returns the energy since the driver was loaded (Volta and later). For a MIG instance it is that of the whole GPU,
  /// because instances have no counters.
  [[nodiscard]] std::optional<std::uint64_t> millijoules(Device device) const;
  [[nodiscard]] GpuReading read(Device device) const;

  /// Returns NVML's errors for GPUs of this node that are lost or must be reset: "GPU 3: GPU is lost"; empty where all
  /// respond. A failing driver may take long.
  [[nodiscard]] std::string trouble() const;

 private:
  explicit Nvml(void* library);
  /// Returns the GPU of a MIG instance, and `device` itself for other devices.
  [[nodiscard]] Device whole(Device device) const;

  // nvmlUtilization_t, nvmlMemory_t.
  struct Utilisation {
    unsigned gpu;  ///< per cent
    unsigned memory;
  };
  struct Memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
  };

  // Null where an older library does not have the function.
  int (*init_)();
  int (*count_)(unsigned*);
  int (*by_index_)(unsigned, Device*);
  int (*by_uuid_)(const char*, Device*);
  int (*whole_)(Device, Device*);
  int (*energy_)(Device, unsigned long long*);
  int (*utilisation_)(Device, Utilisation*);
  int (*memory_)(Device, Memory*);
  int (*power_)(Device, unsigned*);
  const char* (*text_)(int);
};

/// Returns a part of an error's reason: "; NVML says: GPU 3: GPU is lost". Empty where NVML is missing, has no error,
/// or does not answer within two seconds.
[[nodiscard]] std::string gpu_trouble();

}  // namespace rollcall::metrics
