#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>
#include <memory>

namespace rollcall::testing_support::stand_in {

/// Addresses that nobody can read, and beside them the memory that they stand for (behind()). Thread-safe.
[[nodiscard]] c10::DeviceAllocator& memory();

/// Page-locked memory of the host, which alone is copied from and to the device while the host goes on. Thread-safe.
[[nodiscard]] c10::Allocator& pinned_memory();
/// What that allocator gave out and `address` is in: while somebody holds it, it serves no other request. Null: the
/// address is not of it.
[[nodiscard]] std::shared_ptr<const void> pinned_block(const void* address);
/// How often memory of the host was page-locked, since none was left that had been let go of.
[[nodiscard]] std::int64_t times_page_locked();

}  // namespace rollcall::testing_support::stand_in
