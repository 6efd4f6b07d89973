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

/// Writes `text` to a descriptor (write(2)) that need be no file. Gives what of it could not be written: nothing, or
/// errno tells why.
[[nodiscard]] std::string_view write_all(int descriptor, std::string_view text);

}  // namespace rollcall
