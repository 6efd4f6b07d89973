#include "runtime/base/owned_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <random>
#include <utility>

#include "runtime/base/result.h"

namespace rollcall {
namespace {

constexpr int kAlways = O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;

/// Returns whether files that this process creates in `folder` belong to `owner`; false where it cannot create any.
bool gives_us_files_of(const std::string& folder, uid_t owner) {
  const OpenedOutput probe = create_beside(folder + "/.owner", O_WRONLY);
  if (probe.descriptor < 0) {
    return false;
  }
  struct stat status {};
  const bool same = ::fstat(probe.descriptor, &status) == 0 && status.st_uid == owner;
  ::close(probe.descriptor);
  ::unlink(probe.path.c_str());
  return same;
}

/// Returns why an open file must not be written to; empty where it may be.
std::string objection_to(int descriptor, const std::string& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    return errno_text(errno);
  }
  if (!S_ISREG(status.st_mode)) {
    return "is not a regular file";
  }
  if (!is_own(status, folder_of(path))) {
    return fmt::format("belongs to user {}", status.st_uid);
  }
  return status.st_nlink > 1 ? "has a second name (a hard link), which would change with it" : "";
}

}  // namespace

bool is_own(const struct stat& status) { return is_roots_or(::geteuid(), status); }

bool is_own(const struct stat& status, const std::string& folder) {
  return is_own(status) || gives_us_files_of(folder, status.st_uid);
}

std::string why_not_private(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) {
    return "is not a regular file";
  }
  if (status.st_uid != ::geteuid()) {
    return fmt::format("belongs to user {}, not to you", status.st_uid);
  }
  return (status.st_mode & (S_IRWXG | S_IRWXO)) == 0
             ? ""
             : fmt::format("may be read or written by others (mode {:04o})", status.st_mode & 07777U);
}

std::string read_private(const std::string& path, std::string& refusal) {
  std::array<char, 4096> text{};
  struct stat status {};
  const int file = ::open(path.c_str(), O_RDONLY | kAlways);
  if (file < 0) {
    const int error = errno;
    const bool there = error != ENOENT && ::lstat(path.c_str(), &status) == 0;  // perhaps another user's private file
    refusal = there ? why_not_private(status) : "";
    refusal = error != ENOENT && refusal.empty() ? "cannot be read: " + errno_text(error) : refusal;
    return "";
  }
  refusal = ::fstat(file, &status) == 0 ? why_not_private(status) : errno_text(errno);
  const ssize_t count = refusal.empty() ? ::read(file, text.data(), text.size()) : 0;
  ::close(file);
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(0, count))};
}

std::string other_writers(const struct stat& status) {
  if ((status.st_mode & S_IWOTH) != 0) {
    return "everybody";
  }
  return a_group_may_write(status, ::geteuid()) ? fmt::format("members of group {}", status.st_gid) : "";
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

std::string why_refused(const std::string& path, int error_number) {
  struct stat status {};
  const bool there = ::lstat(path.c_str(), &status) == 0;
  if (there && S_ISLNK(status.st_mode)) {
    return "is a link";
  }
  if (there && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    return "is not a regular file";
  }
  const bool of_another = there && (error_number == EACCES || error_number == EPERM) && !is_own(status);
  return of_another ? fmt::format("belongs to user {}", status.st_uid) : errno_text(error_number);
}

std::string what_to_try(int error_number, const std::string& otherwise) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "freeing space or quota there, or " + otherwise;
    case EACCES:
    case EPERM:
    case EROFS:
      return "checking your permissions there, or " + otherwise;
    case EIO:
    case ESTALE:
      return "having the file system checked, or " + otherwise;
    case EEXIST:
    case EISDIR:
    case ENOTEMPTY:
    case ENOTDIR:
      return "removing what is in the way, or " + otherwise;
    case EMFILE:
    case ENFILE:
      return "raising ulimit -n";
    default:
      return otherwise;
  }
}

OpenedOutput open_output(const std::string& path, int flags) {
  // A file that this process creates is its own, whatever owner the file system shows.
  int descriptor = ::open(path.c_str(), flags | kAlways | O_CREAT | O_EXCL, 0666);
  if (descriptor >= 0) {
    return {descriptor, path, ""};
  }
  if (errno == EEXIST) {
    descriptor = ::open(path.c_str(), flags | kAlways);
  }
  if (descriptor < 0) {
    const int error_number = errno;
    return {-1, path, why_refused(path, error_number), error_number};
  }
  if (std::string objection = objection_to(descriptor, path); !objection.empty()) {
    ::close(descriptor);
    return {-1, path, std::move(objection)};
  }
  return {descriptor, path, ""};
}

OpenedOutput create_beside(const std::string& path, int flags, mode_t mode) {
  std::random_device random;
  std::string name = fmt::format("{}.{:08x}{:08x}", path, random(), random());
  const int descriptor = ::open(name.c_str(), flags | kAlways | O_CREAT | O_EXCL, mode);
  const int error_number = descriptor < 0 ? errno : 0;
  return {descriptor, std::move(name), error_number != 0 ? errno_text(error_number) : "", error_number};
}

}  // namespace rollcall
