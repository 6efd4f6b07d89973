#pragma once

#include <c10/core/CachingDeviceAllocator.h>

namespace rollcall::testing_support::stand_in {

/// Addresses that nobody can read, and beside them the memory that they stand for (behind()). Thread-safe.
[[nodiscard]] c10::DeviceAllocator& memory();

}  // namespace rollcall::testing_support::stand_in
