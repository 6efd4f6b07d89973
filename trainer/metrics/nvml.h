#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rollcall::metrics {

/// What a GPU says of itself at one moment. Not a number: it does not say.
struct GpuReading {
  double load = std::nan("");          ///< share of the last second or sixth of one in which kernels ran, in [0, 1]
  double memory = std::nan("");        ///< bytes in use, by whomever
  double memory_total = std::nan("");  ///< bytes
  double watts = std::nan("");         ///< of the whole board; an instance's: of its GPU
};

/// NVIDIA's management library, which the driver brings: nothing of CUDA, no memory of a GPU. What a driver lacks or
/// keeps from this user is not known; nothing is an error. Functions and structures: NVIDIA's NVML API Reference.
/// Immutable, as thread-safe as NVML, which says that it is. Not run on hardware.
class Nvml {
 public:
  using Device = void*;

  static constexpr const char* kLibrary = "libnvidia-ml.so.1";

  /// Null: there is no such library, or no driver. It stays loaded for ever: its threads may be at work.
  [[nodiscard]] static std::shared_ptr<const Nvml> open(const char* library = kLibrary);

  /// All GPUs that it shows to this process.
  [[nodiscard]] std::vector<Device> devices() const;
  /// The one with this UUID, "GPU-8e4c1b7a-...", or the instance of one, "MIG-...": numbers of NVML's are not CUDA's.
  [[nodiscard]] std::optional<Device> device(const std::string& uuid) const;

  /// What it has used since its driver was loaded (Volta and later): of an instance, the whole GPU, since no instance
  /// has a meter of its own.
  [[nodiscard]] std::optional<std::uint64_t> millijoules(Device device) const;
  [[nodiscard]] GpuReading read(Device device) const;

  /// What it says of GPUs of this node that are lost or have to be reset: "GPU 3: GPU is lost"; empty where all answer.
  /// A driver in trouble may take long to answer.
  [[nodiscard]] std::string trouble() const;

 private:
  explicit Nvml(void* library);
  /// The GPU that it is an instance of; itself where it is none.
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

  // Null where the library is of before that function.
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

/// "; NVML says: GPU 3: GPU is lost", for the reason of an error; empty where NVML is not there, says nothing, or does
/// not answer within two seconds.
[[nodiscard]] std::string gpu_trouble();

}  // namespace rollcall::metrics
