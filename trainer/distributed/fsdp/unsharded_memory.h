#pragma once

#include <ATen/core/Tensor.h>
#include <cstddef>
#include <memory>

namespace rollcall::parallel::fsdp {

/// Memory of what exists only while a block of the model computes: whole parameters, results of all-gathers, gradients
/// on their way.
///
/// In main memory a pool of its own, apart from malloc's heap: there blocks that come and go between others that stay
/// leave holes which the process keeps, and what sharding saves would not show. Freed blocks serve the next request
/// that they are large enough for, so in steady state no page is fresh; the pool never holds more than was once in use
/// at the same time. Other devices' allocators are such pools already, and serve here.
///
/// Copies share the pool. Thread-safe: a collective's thread may drop the last reference to a block.
class UnshardedMemory {
 public:
  explicit UnshardedMemory(c10::Device device = c10::Device(c10::kCPU));

  [[nodiscard]] c10::Device device() const { return device_; }

  /// `bytes` (0 is allowed) with undefined values, as a tensor of bytes on device(); in main memory aligned to a page.
  /// Goes back to the pool with the last reference, also after the pool's end. Throws std::bad_alloc, on other devices
  /// what their allocator throws.
  [[nodiscard]] at::Tensor take(std::int64_t bytes) const;

  /// Bytes that a tensor of `bytes` takes where several lie side by side: kernels' fastest loads want them aligned as
  /// the device's own allocator aligns them.
  [[nodiscard]] std::int64_t aligned(std::int64_t bytes) const;

  /// Bytes of main memory mapped now, in use or waiting for use; 0 for another device, whose allocator keeps accounts.
  [[nodiscard]] std::size_t held() const;

 private:
  class Pool;
  c10::Device device_;
  std::shared_ptr<Pool> pool_;  ///< null: the device's allocator
};

}  // namespace rollcall::parallel::fsdp
