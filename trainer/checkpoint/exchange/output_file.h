#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/result.h"
#include "trainer/storage/file.h"

namespace rollcall::checkpoint::exchange {

/// A new file that is written from the front and has its name only once it is whole and on the device: before commit()
/// it is "<path>.tmp-<host>-<pid>", which the destructor removes. Move only, one thread.
class OutputFile {
 public:
  /// Errors (CannotCreate): no permission, no such folder, `path` exists and `overwrite` is not set.
  [[nodiscard]] static Result<OutputFile> create(const std::string& path, bool overwrite);
  OutputFile(OutputFile&& other) noexcept
      : path_(std::move(other.path_)),
        temporary_(std::exchange(other.temporary_, {})),
        file_(std::move(other.file_)),
        size_(other.size_) {}
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  /// How many bytes were appended.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Errors (InputOutput): disk full, quota.
  [[nodiscard]] Result<void> append(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> append(std::string_view text) { return append(std::as_bytes(std::span(text))); }
  /// fsync, rename, fsync of the folder. Errors (InputOutput, CannotCreate): `path` is as it was.
  [[nodiscard]] Result<void> commit();

 private:
  OutputFile(std::string path, std::string temporary, storage::File file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

  std::string path_;
  std::string temporary_;  ///< empty once renamed, or moved from
  storage::File file_;
  std::uint64_t size_ = 0;
};

/// What OutputFile::create() refuses: something of that name is there. For writers that create the file elsewhere.
[[nodiscard]] Result<void> check_output_name(const std::string& path, bool overwrite);

}  // namespace rollcall::checkpoint::exchange
