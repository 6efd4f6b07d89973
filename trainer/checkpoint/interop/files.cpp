#include "trainer/checkpoint/interop/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "runtime/base/owned_file.h"
#include "trainer/checkpoint/format/file_state.h"

namespace rollcall::checkpoint::interop {
namespace {

constexpr const char* kSetting = "state dict";

}  // namespace

Result<InputFile> InputFile::open(const std::string& path) {
  storage::File file(path, O_RDONLY | O_NONBLOCK);  // so that a pipe of that name does not block
  const auto size = file ? file.regular_size() : std::nullopt;
  if (!size) {
    return fail(kSetting, path, "cannot be read: " + errno_text(errno), "naming an existing file", ErrorKind::NoInput);
  }
  return InputFile(path, std::move(file), *size);
}

Result<void> InputFile::read(std::span<std::byte> bytes, std::uint64_t offset) const {
  if (offset > size_ || bytes.size() > size_ - offset) {
    return unusable("is truncated");
  }
  const auto count = file_.read_at(bytes, offset);
  if (!count) {
    return fail(kSetting, path_, "cannot be read: " + errno_text(errno),
                "running it again, or using a copy on another file system", ErrorKind::InputOutput);
  }
  return *count == bytes.size() ? Result<void>() : unusable("became shorter while it was read");
}

Result<std::unique_ptr<std::byte[]>> InputFile::read(std::uint64_t count, std::uint64_t offset) const {
  if (count > size_) {
    return unusable("is truncated");
  }
  auto bytes = std::make_unique_for_overwrite<std::byte[]>(count);
  RETURN_IF_ERROR(read(std::span(bytes.get(), count), offset));
  return bytes;
}

Error InputFile::unusable(std::string reason, std::string action) const {
  return fail(kSetting, path_, std::move(reason), std::move(action), ErrorKind::BadData);
}

namespace {

Error cannot_write(const std::string& path, int error_number) {
  return fail("output", path, "cannot be written: " + errno_text(error_number),
              what_to_try(error_number, "writing to another file system"), ErrorKind::InputOutput);
}

}  // namespace

Result<void> check_output_name(const std::string& path, bool overwrite) {
  std::error_code ignored;
  const auto status = std::filesystem::symlink_status(path, ignored);
  if (std::filesystem::is_directory(status)) {
    return fail("output", path, "is a folder", "naming a file", ErrorKind::CannotCreate);
  }
  if (std::filesystem::exists(status) && !overwrite) {
    return fail("output", path, "already exists", "choosing another name, or --overwrite", ErrorKind::CannotCreate);
  }
  return {};
}

Result<OutputFile> OutputFile::create(const std::string& path, bool overwrite) {
  RETURN_IF_ERROR(check_output_name(path, overwrite));
  std::string temporary = format::temporary_name(path);
  ::unlink(temporary.c_str());  // left by a dead process with our PID
  storage::File file(temporary, O_WRONLY | O_CREAT | O_EXCL);
  if (!file) {
    return fail("output", path, "cannot be created: " + errno_text(errno),
                what_to_try(errno, "naming a file in another folder"), ErrorKind::CannotCreate);
  }
  return OutputFile(path, std::move(temporary), std::move(file));
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

Result<void> OutputFile::append(std::span<const std::byte> bytes) {
  if (!file_.write_at(bytes, size_)) {
    return cannot_write(path_, errno);
  }
  size_ += bytes.size();
  return {};
}

Result<void> OutputFile::commit() {
  if (!file_.sync()) {
    return cannot_write(path_, errno);
  }
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return fail("output", path_, "the finished file cannot be renamed to this name: " + errno_text(errno),
                what_to_try(errno, "naming another file"), ErrorKind::CannotCreate);
  }
  temporary_.clear();
  return storage::sync_folder_of(path_) ? Result<void>() : cannot_write(path_, errno);
}

}  // namespace rollcall::checkpoint::interop
