#pragma once

#include <sys/stat.h>

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

 private:
  int descriptor_ = -1;
};

/// Makes renames and removals in the folder of `path` durable; errno tells why not.
[[nodiscard]] bool sync_folder_of(const std::string& path);

}  // namespace rollcall::storage
