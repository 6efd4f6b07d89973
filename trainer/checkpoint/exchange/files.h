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
  [[nodiscard]] Error unusable(std::string reason, std::string action = "saving the state dict again") const;

 private:
  InputFile(std::string path, storage::File file, std::uint64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  std::string path_;
  storage::File file_;
  std::uint64_t size_;
};

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

static_assert(std::endian::native == std::endian::little, "tensors are copied as they lie in memory");

/// The number at `at`, which the caller has checked to lie within `bytes`.
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

}  // namespace rollcall::checkpoint::exchange
