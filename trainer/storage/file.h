#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace rollcall::storage {

/// What becomes of a file's pages in the page cache.
enum class Cached { Drop, Keep };

/// A file descriptor that is closed by the destructor. Move only. Failed calls tell by errno; reading and writing at an
/// offset is thread-safe.
class File {
 public:
  File() = default;
  /// open(2) with O_CLOEXEC added; test the result.
  File(const std::string& path, int flags, mode_t mode = 0666);
  /// Owns `descriptor`; negative: none.
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~File();

  explicit operator bool() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

  /// Size in bytes of a regular file; nothing for everything else.
  [[nodiscard]] std::optional<std::uint64_t> regular_size() const;
  /// Fills `bytes` from `offset` on; gives how many there were, fewer only at the end of the file.
  [[nodiscard]] std::optional<std::size_t> read_at(std::span<std::byte> bytes, std::uint64_t offset) const;
  /// Writes all of `bytes` at `offset`.
  [[nodiscard]] bool write_at(std::span<const std::byte> bytes, std::uint64_t offset) const;
  /// fsync(2); by default also out of the page cache, so that reading back is no mere look into memory.
  [[nodiscard]] bool sync(Cached cached = Cached::Drop) const;
  /// Whether each host may keep pages of the file that other hosts have changed since: NFS, SMB, 9P, AFS and whatever
  /// stands behind FUSE. There a page that two hosts write parts of through their page caches may lose one's part:
  /// the Linux NFS client writes whole pages back (fs/nfs/write.c, nfs_can_extend_write).
  [[nodiscard]] bool cached_by_each_host() const;

 private:
  int descriptor_ = -1;
};

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
