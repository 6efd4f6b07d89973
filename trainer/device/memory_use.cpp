#include "trainer/device/memory_use.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <exception>

namespace rollcall::device {
namespace {

/// Null: the CPU, one that is not in use yet, or that of a plugin which does not count.
c10::DeviceAllocator* counting_allocator(const Device& device) {
  if (device.plugin() == nullptr) {
    return nullptr;
  }
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  return allocator != nullptr && allocator->initialized() ? allocator : nullptr;
}

}  // namespace

std::optional<MemoryUse> memory_use(const Device& device) {
  c10::DeviceAllocator* const allocator = counting_allocator(device);
  if (allocator == nullptr) {
    return std::nullopt;
  }
  const c10::CachingDeviceAllocator::DeviceStats stats = allocator->getDeviceStats(device.device().index());
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto& allocated = stats.allocated_bytes.at(kAll);
  const auto& reserved = stats.reserved_bytes.at(kAll);
  return MemoryUse{.allocated = static_cast<std::uint64_t>(allocated.current),
                   .peak_allocated = static_cast<std::uint64_t>(allocated.peak),
                   .reserved = static_cast<std::uint64_t>(reserved.current),
                   .peak_reserved = static_cast<std::uint64_t>(reserved.peak)};
}

void begin_peak(const Device& device) {
  if (c10::DeviceAllocator* const allocator = counting_allocator(device)) {
    allocator->resetPeakStats(device.device().index());
  }
}

std::optional<std::uint64_t> memory_within_reach(const Device& device) {
  c10::DeviceAllocator* const allocator = counting_allocator(device);
  try {
    return allocator == nullptr ? std::nullopt
                                : std::optional<std::uint64_t>(memory_use(device)->reserved +
                                                               allocator->getMemoryInfo(device.device().index()).first);
  } catch (const std::exception&) {  // not every allocator can
    return std::nullopt;
  }
}

}  // namespace rollcall::device
