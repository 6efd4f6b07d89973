#pragma once

#include <ATen/Context.h>
#include <cstdint>

#include "trainer/torch.h"

namespace rollcall::model {

/// Where a training computes: what its model, its batches, autocast, random numbers, the sums of its ranks and the
/// warm-up live on. All of them ask this, so that another device is an addition here. A CPU so far. A plain value.
class Device {
 public:
  Device() = default;

  [[nodiscard]] c10::Device device() const { return device_; }
  [[nodiscard]] at::DeviceType type() const { return device_.type(); }
  /// For tensors that are made there.
  [[nodiscard]] at::TensorOptions options() const { return at::TensorOptions().device(device_); }

  /// `tensor`, or a copy of it there; undefined stays undefined.
  [[nodiscard]] at::Tensor place(const at::Tensor& tensor) const {
    return tensor.defined() ? tensor.to(device_) : tensor;
  }
  /// Moves parameters and buffers; before anything refers to them.
  void place(torch::nn::Module& module) const {
    if (!device_.is_cpu()) {  // where modules are made
      module.to(device_);
    }
  }

  /// Whether batches are to be read into page-locked memory, from which they are copied to it.
  [[nodiscard]] bool wants_pinned_batches() const { return !device_.is_cpu(); }

  /// The generator that operators draw from where none is named.
  [[nodiscard]] at::Generator generator() const { return at::globalContext().defaultGenerator(device_); }
  /// Begins its random numbers anew, and those of the CPU, which draws initial weights.
  void seed(std::uint64_t seed) const { torch::manual_seed(seed); }

 private:
  c10::Device device_ = at::kCPU;
};

/// Makes oneDNN do without AMX where the processor names it and cannot be used with it: some virtual machines show the
/// feature but not its tiles, or their kernel refuses tile state, and the first bfloat16 matrix product then ends the
/// process with SIGILL. Sets ONEDNN_MAX_CPU_ISA of this process unless it is set. Call it before the first tensor is
/// computed with; not thread-safe, as setenv(3).
void avoid_unusable_amx();

}  // namespace rollcall::model
