#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>

#include "runtime/base/result.h"

namespace rollcall::checkpoint::format {

/// A file opened for writing in place, closed by the destructor. Move only.
class DurableFile {
 public:
  /// Opens an existing file. Errors (InputOutput): the system's.
  static Result<DurableFile> open(const std::string& path);
  DurableFile(DurableFile&& other) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;
  ~DurableFile();

  /// All of `bytes` at `offset`. Errors (InputOutput): disk full, quota, file size limit.
  [[nodiscard]] Result<void> write(std::span<const std::byte> bytes, off_t offset);
  /// To the storage device (fsync), and out of the page cache, so that reading back is no mere look into memory.
  [[nodiscard]] Result<void> sync();

 private:
  DurableFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  [[nodiscard]] Error failure(const char* what, int error_number) const;

  int descriptor_;
  std::string path_;
};

/// Makes renames and removals in a folder durable. Errors (InputOutput): the system's.
[[nodiscard]] Result<void> sync_folder(const std::string& folder);

/// What to advise where writing failed for want of space, permissions and the like.
[[nodiscard]] std::string advice_for_write_failure();

}  // namespace rollcall::checkpoint::format
