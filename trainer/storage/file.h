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

/// Whether this process may have so much memory at all (memory_limit()). A sparse file takes no room on a device and
/// can say that it holds any number of bytes: what is allocated for them as they come ends the process.
[[nodiscard]] bool fits_in_memory(std::uint64_t bytes);

/// Makes renames and removals in the folder of `path` durable; errno tells why not.
[[nodiscard]] bool sync_folder_of(const std::string& path);

/// Memory that other processes of this user on this machine can map too (memfd_create(2)): no file has its name, and
/// it is gone with the last process that maps it. Of fixed length. Move only. Failed calls tell by errno.
class SharedMemory {
 public:
  /// Zeros, for this process to write.
  [[nodiscard]] static std::optional<SharedMemory> make(std::size_t bytes);
  /// What process `pid` made and has as `descriptor`, to be read only. It may be anything: the caller checks it.
  [[nodiscard]] static std::optional<SharedMemory> of_process(pid_t pid, int descriptor);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  [[nodiscard]] std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(address_), size_}; }
  /// Of make() alone.
  [[nodiscard]] std::span<std::byte> writable() { return {static_cast<std::byte*>(address_), size_}; }
  /// By which others find it.
  [[nodiscard]] int descriptor() const { return file_.descriptor(); }

 private:
  SharedMemory(File file, void* address, std::size_t size) : file_(std::move(file)), address_(address), size_(size) {}
  [[nodiscard]] static std::optional<SharedMemory> map(File file, std::size_t size, int protection);

  File file_;
  void* address_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace rollcall::storage
