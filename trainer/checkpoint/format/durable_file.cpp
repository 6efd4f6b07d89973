#include "trainer/checkpoint/format/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace rollcall::checkpoint::format {

std::string advice_for_write_failure() {
  return "freeing space or quota there, or setting --checkpoint-dir to another file system";
}

Result<DurableFile> DurableFile::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  DurableFile file(descriptor, path);
  if (descriptor < 0) {
    return file.failure("cannot be opened for writing", errno);
  }
  return file;
}

DurableFile::DurableFile(DurableFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

DurableFile::~DurableFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Error DurableFile::failure(const char* what, int error_number) const {
  return fail("checkpoint", path_, std::string(what) + ": " + errno_text(error_number), advice_for_write_failure(),
              ExitCode::InputOutput);
}

Result<void> DurableFile::write(std::span<const std::byte> bytes, off_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return failure("cannot be written", written < 0 ? errno : ENOSPC);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
  return {};
}

Result<void> DurableFile::sync() {
  if (::fsync(descriptor_) != 0) {
    return failure("cannot be written to the device", errno);
  }
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
  return {};
}

Result<void> sync_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int error_number = errno;
  if (descriptor >= 0) {
    ::close(descriptor);
  }
  // Some network file systems cannot fsync a folder and say so (EINVAL): their metadata operations are synchronous.
  if (!synced && error_number != EINVAL) {
    return fail("checkpoint", folder, "the folder cannot be written to the device: " + errno_text(error_number),
                advice_for_write_failure(), ExitCode::InputOutput);
  }
  return {};
}

}  // namespace rollcall::checkpoint::format
