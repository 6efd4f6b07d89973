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

/// The device of a training, for its model, batches, autocast, random numbers, collectives and warm-up. Plugins provide
/// all types of devices besides the CPU. A plain value.
class Device {
 public:
  /// Makes the CPU.
  Device() = default;
  Device(const Plugin& plugin, std::uint32_t index, Facts facts)
      : device_(plugin.type, static_cast<c10::DeviceIndex>(index)), plugin_(&plugin), facts_(std::move(facts)) {}

  [[nodiscard]] c10::Device device() const { return device_; }
  [[nodiscard]] at::DeviceType type() const { return device_.type(); }
  /// Returns the device's plugin; null for the CPU.
  [[nodiscard]] const Plugin* plugin() const { return plugin_; }
  [[nodiscard]] const Facts& facts() const { return facts_; }
  /// Returns the project's own kernels for tensors on it; null if LibTorch's operators compute.
  [[nodiscard]] const Kernels* kernels() const {
    return own_kernels_ && plugin_ != nullptr && facts_.without_kernels.empty() ? plugin_->kernels : nullptr;
  }
  /// Returns the parts of these kernels that are used.
  [[nodiscard]] KernelParts kernel_parts() const { return own_kernels_.value_or(KernelParts{}); }
  /// Returns whether kernels() is null although it is a device other than the CPU and own kernels are not switched off.
  [[nodiscard]] bool lacks_kernels() const { return own_kernels_ && plugin_ != nullptr && kernels() == nullptr; }
  /// Returns a text for messages: "cpu", "cuda: NVIDIA H100 80GB HBM3".
  [[nodiscard]] std::string text() const {
    const std::string kind = c10::DeviceTypeName(type(), true);
    return facts_.name.empty() ? kind : kind + ": " + facts_.name;
  }
  /// Makes it the calling thread's current device. Errors (Unavailable): the driver's reason.
  [[nodiscard]] Result<void> make_current() const;
  /// Sets LibTorch's flags for its type of devices. Does nothing for the CPU. Call it before tensors are computed.
  void use(const Arithmetic& arithmetic);
  /// Returns the options for new tensors on it.
  [[nodiscard]] at::TensorOptions options() const { return at::TensorOptions().device(device_); }

  /// Returns `tensor`, or its copy on this device, for which the host waits; undefined stays undefined.
  [[nodiscard]] at::Tensor place(const at::Tensor& tensor) const {
    return tensor.defined() ? tensor.to(device_) : tensor;
  }
  /// Moves parameters and buffers to this device. Call it before anything but the module refers to them.
  void place(torch::nn::Module& module) const;

  /// Returns whether batches should be read into pinned memory, from which they are copied to this device.
  [[nodiscard]] bool wants_pinned_batches() const { return !device_.is_cpu(); }

  /// Returns the default random generator of operators.
  [[nodiscard]] at::Generator generator() const { return at::globalContext().defaultGenerator(device_); }
  /// Seeds its default generator, and that of the CPU, which draws initial weights.
  void seed(std::uint64_t seed) const { torch::manual_seed(seed); }

 private:
  c10::Device device_ = at::kCPU;
  const Plugin* plugin_ = nullptr;
  Facts facts_;
  std::optional<KernelParts> own_kernels_ = KernelParts{};
};

/// While it lives, cuDNN uses the algorithm that it expects to be the fastest for a convolution, as it does with
/// Arithmetic::deterministic, instead of timing them all. For shapes that are computed once. One at a time.
class WithoutSearch {
 public:
  WithoutSearch() : before_(at::globalContext().benchmarkCuDNN()) { at::globalContext().setBenchmarkCuDNN(false); }
  WithoutSearch(const WithoutSearch&) = delete;
  WithoutSearch& operator=(const WithoutSearch&) = delete;
  ~WithoutSearch() { at::globalContext().setBenchmarkCuDNN(before_); }

 private:
  bool before_;
};

/// What choose_device() needs to know of a rank.
struct DeviceRequest {
  std::string asked = "auto";          ///< value of setting `device`
  std::uint32_t gpus = 0;              ///< number of NVIDIA device files that this process may open
  std::uint32_t local_rank = 0;        ///< rank on this node
  std::uint32_t local_world_size = 1;  ///< number of ranks on this node
};

/// Returns whether the rank computes on the CPU, by the setting or because there are no GPUs.
[[nodiscard]] bool is_cpu(const DeviceRequest& request);

/// Chooses the device of a rank, and makes it the calling thread's current one. "cpu" is the CPU. The name of a plugin
/// selects the device number `local_rank` that the plugin sees, or the only one. "auto" selects plugin `cuda` if this
/// process may open GPUs, else the CPU.
///
/// Errors: those of open_plugin(); (Unavailable) the driver's reason, or there are fewer devices than ranks on this
/// node.
[[nodiscard]] Result<Device> choose_device(const DeviceRequest& request);

/// Returns the warning that `auto` computes on the CPU although there are GPUs; empty if it does not apply.
[[nodiscard]] std::string idle_gpus_warning(const DeviceRequest& request, const Device& device);

/// Peak use of a device's memory by LibTorch's allocator, in bytes. Plain value.
struct MemoryPeak {
  std::uint64_t allocated = 0;  ///< by tensors
  std::uint64_t reserved = 0;   ///< taken from the device, for tensors and cached for later ones
};

/// Returns the peak; unset for the CPU and for an allocator that does not count. The host waits for nothing.
/// Thread-safe.
[[nodiscard]] std::optional<MemoryPeak> memory_peak(const Device& device);

/// Returns the warning that `device`, a GPU, has none of the project's own kernels although they are not switched off;
/// empty if it does not apply.
[[nodiscard]] std::string missing_kernels_warning(const Device& device);

/// Returns the number of the device for a rank, out of `visible` ones. Errors (Unavailable): there are fewer than
/// ranks. Pure.
[[nodiscard]] Result<std::uint32_t> device_index(const DeviceRequest& request, std::uint32_t visible);

}  // namespace rollcall::device
