#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace rollcall {

/// Whether the pages of a file stay in the page cache.
enum class Cached { Drop, Keep };

/// A file descriptor that the destructor closes. Move only. Failed calls set errno. Reading and writing at an offset is
/// thread-safe.
class File {
 public:
  File() = default;
  /// Calls open(2) with O_CLOEXEC added. Test the object for success.
  File(const std::string& path, int flags, mode_t mode = 0666);
  /// Takes ownership of `descriptor`. A negative one means no file.
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~File();

  explicit operator bool() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

  /// Returns the size in bytes of a regular file, and nothing for other types.
  [[nodiscard]] std::optional<std::uint64_t> regular_size() const;
  /// Reads into `bytes` from `offset`. Returns the number of bytes read, which is smaller only at the end of the file.
  [[nodiscard]] std::optional<std::size_t> read_at(std::span<std::byte> bytes, std::uint64_t offset) const;
  /// Writes all of `bytes` at `offset`.
  [[nodiscard]] bool write_at(std::span<const std::byte> bytes, std::uint64_t offset) const;
  /// Calls fsync(2). By default it also drops the pages from the page cache, so that a later read comes from storage.
  [[nodiscard]] bool sync(Cached cached = Cached::Drop) const;
  /// Returns whether each host may cache pages of the file that other hosts have changed: NFS, SMB, 9P, AFS and FUSE.
  /// If two hosts write parts of one page there, one part may be lost: the Linux NFS client writes whole pages
  /// (fs/nfs/write.c, nfs_can_extend_write).
  [[nodiscard]] bool cached_by_each_host() const;

 private:
  int descriptor_ = -1;
};

/// Writes `text` to a descriptor of any type with write(2). Returns the rest that could not be written: empty on
/// success, else errno is set.
[[nodiscard]] std::string_view write_all(int descriptor, std::string_view text);

}  // namespace rollcall
