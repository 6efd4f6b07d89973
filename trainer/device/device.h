#pragma once

#include <ATen/Context.h>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/result.h"
#include "trainer/device/arithmetic.h"
#include "trainer/device/plugin.h"
#include "trainer/torch.h"

namespace rollcall::device {

/// Where a training computes: what its model, its batches, autocast, random numbers, the sums of its ranks and the
/// warm-up live on. All of them ask this; kinds of devices beside the CPU are plugins. A plain value.
class Device {
 public:
  /// The CPU.
  Device() = default;
  Device(const Plugin& plugin, std::uint32_t index, Facts facts)
      : device_(plugin.type, static_cast<c10::DeviceIndex>(index)), plugin_(&plugin), facts_(std::move(facts)) {}

  [[nodiscard]] c10::Device device() const { return device_; }
  [[nodiscard]] at::DeviceType type() const { return device_.type(); }
  /// Null: the CPU.
  [[nodiscard]] const Plugin* plugin() const { return plugin_; }
  [[nodiscard]] const Facts& facts() const { return facts_; }
  /// The project's own, for tensors there; null: LibTorch's operators compute.
  [[nodiscard]] const Kernels* kernels() const {
    return own_kernels_ && plugin_ != nullptr && facts_.without_kernels.empty() ? plugin_->kernels : nullptr;
  }
  /// Whether kernels() is null for no other reason than that there are none.
  [[nodiscard]] bool lacks_kernels() const { return own_kernels_ && plugin_ != nullptr && kernels() == nullptr; }
  /// For people: "cpu", "cuda: NVIDIA H100 80GB HBM3".
  [[nodiscard]] std::string text() const {
    const std::string kind = c10::DeviceTypeName(type(), true);
    return facts_.name.empty() ? kind : kind + ": " + facts_.name;
  }
  /// Makes it the calling thread's. Errors (Unavailable): the driver's reason.
  [[nodiscard]] Result<void> make_current() const;
  /// Sets LibTorch's flags for its kind of devices, and this process's CUBLAS_WORKSPACE_CONFIG unless it is set; the
  /// CPU has no choice. Call it before other threads and the first tensor that is computed with, as setenv(3) wants.
  void use(const Arithmetic& arithmetic);
  /// For tensors that are made there.
  [[nodiscard]] at::TensorOptions options() const { return at::TensorOptions().device(device_); }

  /// `tensor`, or a copy of it there, for which the host waits; undefined stays undefined.
  [[nodiscard]] at::Tensor place(const at::Tensor& tensor) const {
    return tensor.defined() ? tensor.to(device_) : tensor;
  }
  /// Moves parameters and buffers; before anything but the module refers to them.
  void place(torch::nn::Module& module) const;

  /// Whether batches are to be read into page-locked memory, from which they are copied to it.
  [[nodiscard]] bool wants_pinned_batches() const { return !device_.is_cpu(); }

  /// The generator that operators draw from where none is named.
  [[nodiscard]] at::Generator generator() const { return at::globalContext().defaultGenerator(device_); }
  /// Begins its random numbers anew, and those of the CPU, which draws initial weights.
  void seed(std::uint64_t seed) const { torch::manual_seed(seed); }

 private:
  c10::Device device_ = at::kCPU;
  const Plugin* plugin_ = nullptr;
  Facts facts_;
  bool own_kernels_ = true;
};

/// What a rank computes on.
struct Place {
  std::string asked = "auto";          ///< setting `device`
  std::uint32_t gpus = 0;              ///< NVIDIA's, whose device files this process may open: where a driver is
  std::uint32_t local_rank = 0;        ///< on this node
  std::uint32_t local_world_size = 1;  ///< ranks on this node
};

/// Whether nothing but the CPU is asked for or there.
[[nodiscard]] bool is_cpu(const Place& place);

/// The device of a rank, made the calling thread's. "cpu": the CPU; a name: device number local rank of those that the
/// plugin of that name sees, or the only one. "auto": the GPUs of plugin `cuda` where this process may open some, else
/// the CPU.
///
/// Errors: those of open_plugin(); (Unavailable) what the driver says; there are fewer devices than ranks on this node.
[[nodiscard]] Result<Device> choose_device(const Place& place);

/// Why `auto` computes on the CPU although there are GPUs; empty: it does not.
[[nodiscard]] std::string idle_gpus_warning(const Place& place, const Device& device);

/// The most bytes of a device's memory that LibTorch's allocator has had. Plain value.
struct MemoryPeak {
  std::uint64_t allocated = 0;  ///< to tensors
  std::uint64_t reserved = 0;   ///< taken from the device: tensors' and what is kept for later ones
};

/// Nothing: the CPU, or an allocator that does not count. The host waits for nothing. Thread-safe.
[[nodiscard]] std::optional<MemoryPeak> memory_peak(const Device& device);

/// That `device`, a GPU, has none of the project's own kernels although they were not switched off; empty: it has, or
/// is none.
[[nodiscard]] std::string missing_kernels_warning(const Device& device);

/// The number of the device that a rank takes of `visible` ones. Errors (Unavailable): they are fewer than ranks. Pure.
[[nodiscard]] Result<std::uint32_t> device_index(const Place& place, std::uint32_t visible);

}  // namespace rollcall::device
