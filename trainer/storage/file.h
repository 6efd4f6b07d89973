#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/file.h"

namespace rollcall::storage {

using rollcall::Cached;
using rollcall::File;

/// Returns whether this process may allocate so much memory (memory_limit()). A sparse file occupies no space but can
/// claim any size; allocating that would end the process.
[[nodiscard]] bool fits_in_memory(std::uint64_t bytes);

/// Makes renames and removals in the folder of `path` durable. Returns false and sets errno on failure.
[[nodiscard]] bool sync_folder_of(const std::string& path);

/// Memory that other processes of the same user on this machine can map (memfd_create(2)). It has no file name, a fixed
/// length, and is freed with the last process that maps it. Move only. Failed calls set errno.
class SharedMemory {
 public:
  /// Creates zeroed memory that this process can write.
  [[nodiscard]] static std::optional<SharedMemory> make(std::size_t bytes);
  /// Maps memory that process `pid` created and has open as `descriptor`, read-only. The caller checks the content,
  /// which may be anything.
  [[nodiscard]] static std::optional<SharedMemory> map_from_process(pid_t pid, int descriptor);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  [[nodiscard]] std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(address_), size_}; }
  /// Returns the memory for writing; only for memory from make().
  [[nodiscard]] std::span<std::byte> writable() { return {static_cast<std::byte*>(address_), size_}; }
  /// Returns the descriptor by which other processes map the memory.
  [[nodiscard]] int descriptor() const { return file_.descriptor(); }

 private:
  SharedMemory(File file, void* address, std::size_t size) : file_(std::move(file)), address_(address), size_(size) {}
  [[nodiscard]] static std::optional<SharedMemory> map(File file, std::size_t size, int protection);

  File file_;
  void* address_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace rollcall::storage
