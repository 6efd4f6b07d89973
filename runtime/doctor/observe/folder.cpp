#include "runtime/doctor/observe/observe.h"

#include <fcntl.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkostemp is POSIX's
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "runtime/base/result.h"

namespace rollcall::doctor {
namespace {

/// Opens a file without a name where the file system supports that, otherwise one whose name is removed immediately.
/// -1: errno.
int open_unnamed(const std::string& folder) {
  const int unnamed = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (unnamed >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) {
    return unnamed;
  }
  std::string name = folder + "/.rollcall-doctor-XXXXXX";
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) {
    unlink(name.c_str());
  }
  return named;
}

/// Returns 0 or errno. An exhausted quota shows in write, fsync or close, depending on the file system.
int write_something(const std::string& folder) {
  const int descriptor = open_unnamed(folder);
  if (descriptor < 0) {
    return errno;
  }
  const std::array<char, 4096> bytes{};
  int error = write(descriptor, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) ? 0 : errno;
  if (error == 0 && fsync(descriptor) != 0) {
    error = errno;
  }
  if (close(descriptor) != 0 && error == 0) {
    error = errno;
  }
  return error;
}

}  // namespace

FolderFacts observe_folder(const std::string& path) {
  FolderFacts facts;
  facts.path = path;
  struct statvfs space {};
  if (statvfs(path.c_str(), &space) != 0) {
    facts.error = errno_text(errno);
    return facts;
  }
  facts.free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize;
  facts.total_bytes = std::uint64_t{space.f_blocks} * space.f_frsize;
  facts.free_inodes = space.f_favail;
  facts.total_inodes = space.f_files;
  if (const int error = write_something(path); error != 0) {
    facts.error = errno_text(error);
  }
  return facts;
}

std::uint64_t file_system_bytes(const std::string& path) {
  struct statvfs space {};
  return statvfs(path.c_str(), &space) == 0 ? std::uint64_t{space.f_blocks} * space.f_frsize : 0;
}

}  // namespace rollcall::doctor
