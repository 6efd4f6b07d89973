#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/result.h"
#include "trainer/storage/file.h"

namespace rollcall::checkpoint::interop {

/// A file that another program wrote, whose bytes are not trusted. Move only; read() is thread-safe.
class InputFile {
 public:
  /// Opens `path`. Errors (NoInput): it does not exist, is not readable or is not a regular file.
  [[nodiscard]] static Result<InputFile> open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }

  /// Fills `bytes` from `offset` on. Errors: BadData: the file is too short; InputOutput: the system fails.
  [[nodiscard]] Result<void> read(std::span<std::byte> bytes, std::uint64_t offset) const;
  /// Returns `count` bytes from `offset` on in new memory, which is allocated only if the file is that long. Errors: as
  /// above.
  [[nodiscard]] Result<std::unique_ptr<std::byte[]>> read(std::uint64_t count, std::uint64_t offset) const;

  /// Returns the error (BadData) of a file that cannot be used.
  [[nodiscard]] Error unusable(std::string reason, std::string action = "saving the state dict again") const;

 private:
  InputFile(std::string path, storage::File file, std::uint64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  std::string path_;
  storage::File file_;
  std::uint64_t size_;
};

/// A new file that is written sequentially and gets its name only when it is complete and on the device. Before
/// commit() it is named "<path>.tmp-<host>-<pid>", which the destructor removes. Move only, one thread.
class OutputFile {
 public:
  /// Creates the file. Errors (CannotCreate): no permission, no such folder, `path` exists and `overwrite` is not set.
  [[nodiscard]] static Result<OutputFile> create(const std::string& path, bool overwrite);
  OutputFile(OutputFile&& other) noexcept
      : path_(std::move(other.path_)),
        temporary_(std::exchange(other.temporary_, {})),
        file_(std::move(other.file_)),
        size_(other.size_) {}
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  /// Returns the number of appended bytes.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Appends `bytes`. Errors (InputOutput): disk full, quota.
  [[nodiscard]] Result<void> append(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> append(std::string_view text) { return append(std::as_bytes(std::span(text))); }
  /// Calls fsync, renames the file and syncs its folder. Errors (InputOutput, CannotCreate): `path` is unchanged.
  [[nodiscard]] Result<void> commit();

 private:
  OutputFile(std::string path, std::string temporary, storage::File file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

  std::string path_;
  std::string temporary_;  ///< empty once renamed or moved from
  storage::File file_;
  std::uint64_t size_ = 0;
};

/// Checks that nothing has the name `path`, as OutputFile::create() does. For writers that create the file elsewhere.
[[nodiscard]] Result<void> check_output_name(const std::string& path, bool overwrite);

static_assert(std::endian::native == std::endian::little, "tensors are copied as they lie in memory");

/// Returns the number at offset `at`, which the caller has checked to be within `bytes`.
template <std::integral Number>
[[nodiscard]] Number number_at(std::span<const std::byte> bytes, std::size_t at) {
  Number number{};
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

template <std::integral Number>
void append_number(std::string& text, Number number) {
  char bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  text.append(bytes, sizeof(number));
}

}  // namespace rollcall::checkpoint::interop
