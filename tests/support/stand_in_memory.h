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
/// What was page-locked, since none was left that had been let go of.
struct PageLocks {
  std::int64_t times = 0;
  std::int64_t bytes = 0;
  std::int64_t bytes_by_main = 0;  ///< by the process's main thread
};
[[nodiscard]] PageLocks page_locks();

}  // namespace rollcall::testing_support::stand_in
