#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/result.h"
#include "trainer/storage/file.h"

namespace rollcall::checkpoint::exchange {

/// A file of another program's, whose bytes are not to be believed. Move only; read() is thread-safe.
class InputFile {
 public:
  /// Errors (NoInput): it is not there, not readable or no regular file.
  [[nodiscard]] static Result<InputFile> open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }

  /// Fills `bytes` from `offset` on. Errors: BadData where the file ends before; InputOutput where the system fails.
  [[nodiscard]] Result<void> read(std::span<std::byte> bytes, std::uint64_t offset) const;
  /// `count` bytes from `offset` on, in new memory that is only asked for where the file is that long. Errors: as
  /// above.
  [[nodiscard]] Result<std::unique_ptr<std::byte[]>> read(std::uint64_t count, std::uint64_t offset) const;

  /// The error that says what is wrong with the file (BadData).
  [[nodiscard]] Error unusable(std::string reason, std::string action = "saving the state dict anew") const;

 private:
  InputFile(std::string path, storage::File file, std::uint64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  std::string path_;
  storage::File file_;
  std::uint64_t size_;
};

}  // namespace rollcall::checkpoint::exchange
