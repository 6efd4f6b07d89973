#pragma once

#include <cstdint>
#include <optional>

#include "trainer/device/device.h"

namespace rollcall::device {

/// What LibTorch's allocator has of a device's memory: bytes, of this process. Plain value.
struct MemoryUse {
  std::uint64_t allocated = 0;       ///< to tensors, now
  std::uint64_t peak_allocated = 0;  ///< at most so far
  std::uint64_t reserved = 0;        ///< taken from the device, now: tensors' and what is kept for later ones
  std::uint64_t peak_reserved = 0;
};

/// Nothing: the CPU, or an allocator that does not count. The host waits for nothing. Thread-safe.
[[nodiscard]] std::optional<MemoryUse> memory_use(const Device& device);

/// Peaks begin anew. Nothing happens where nothing is counted.
void begin_peak(const Device& device);

/// Bytes that tensors of this process may have in all: what it has reserved, and what is free on the device. Nothing:
/// the CPU, or an allocator that does not say. Asks the driver.
[[nodiscard]] std::optional<std::uint64_t> memory_within_reach(const Device& device);

}  // namespace rollcall::device
