#include "trainer/checkpoint/exchange/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "trainer/checkpoint/format/file_state.h"

namespace rollcall::checkpoint::exchange {
namespace {

Error cannot_write(const std::string& path, int error_number) {
  return fail("output", path, "cannot be written: " + errno_text(error_number),
              "freeing space or quota there, or another file system", ExitCode::InputOutput);
}

}  // namespace

Result<void> check_output_name(const std::string& path, bool overwrite) {
  std::error_code ignored;
  const auto status = std::filesystem::symlink_status(path, ignored);
  if (std::filesystem::is_directory(status)) {
    return fail("output", path, "is a folder", "naming a file", ExitCode::CannotCreate);
  }
  if (std::filesystem::exists(status) && !overwrite) {
    return fail("output", path, "is there already", "another name, or --overwrite", ExitCode::CannotCreate);
  }
  return {};
}

Result<OutputFile> OutputFile::create(const std::string& path, bool overwrite) {
  if (auto free = check_output_name(path, overwrite); !free) {
    return free.error();
  }
  std::string temporary = format::temporary_name(path);
  ::unlink(temporary.c_str());  // of a dead process that had our number
  storage::File file(temporary, O_WRONLY | O_CREAT | O_EXCL);
  if (!file) {
    return fail("output", path, "cannot be created: " + errno_text(errno),
                "a folder that is there and can be written to", ExitCode::CannotCreate);
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
    return fail("output", path_, "the finished file cannot be given its name: " + errno_text(errno),
                "removing what is in the way", ExitCode::CannotCreate);
  }
  temporary_.clear();
  return storage::sync_folder_of(path_) ? Result<void>() : cannot_write(path_, errno);
}

}  // namespace rollcall::checkpoint::exchange
