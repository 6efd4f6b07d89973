#include "runtime/install/plan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/base/owned_file.h"
#include "runtime/base/small_file.h"

namespace rollcall::install {
namespace {

namespace fs = std::filesystem;

Error cannot(const std::string& path, int error_number) {
  return fail(path, "", "cannot be changed: " + errno_text(error_number),
              error_number == EACCES || error_number == EPERM ? "running it as root, or rollcall install --user"
                                                              : what_to_try(error_number, "naming another path"),
              ErrorKind::CannotCreate);
}

bool write_and_close(int file, const std::string& text) {
  const bool whole = write_all(file, text).empty() && ::fsync(file) == 0;
  return ::close(file) == 0 && whole;
}

/// Replaces the file `path`, which must not be a link.
Result<void> replace(const std::string& path, const std::string& text, mode_t mode) {
  const std::string beside = path + ".rollcall-new";
  struct stat old {};
  const bool existed = ::stat(path.c_str(), &old) == 0;
  constexpr mode_t kModeBits = 07777;
  ::unlink(beside.c_str());
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (file < 0) {
    return cannot(path, errno);
  }
  ::fchmod(file, existed ? old.st_mode & kModeBits : mode);
  const bool owned = !existed || ::fchown(file, old.st_uid, old.st_gid) == 0;
  if (!write_and_close(file, text) || !owned || ::rename(beside.c_str(), path.c_str()) != 0) {
    const int error_number = errno;
    ::unlink(beside.c_str());
    return cannot(path, error_number);
  }
  return {};
}

Result<void> replace_link(const std::string& path, const std::string& target) {
  const std::string beside = path + ".rollcall-new";
  ::unlink(beside.c_str());
  if (::symlink(target.c_str(), beside.c_str()) != 0 || ::rename(beside.c_str(), path.c_str()) != 0) {
    return cannot(path, errno);
  }
  return {};
}

/// Creates `folder` and its missing parents.
Result<void> make_folders(const fs::path& folder, bool for_all_users) {
  constexpr mode_t kForAll = 0755;
  constexpr mode_t kAsUmaskSays = 0777;
  std::error_code error;
  if (fs::is_directory(folder, error) || folder == folder.parent_path()) {
    return {};
  }
  RETURN_IF_ERROR(make_folders(folder.parent_path(), for_all_users));
  if (::mkdir(folder.c_str(), kAsUmaskSays) != 0) {
    const int error_number = errno;
    return error_number == EEXIST && fs::is_directory(folder, error) ? Result<void>() : cannot(folder, error_number);
  }
  return !for_all_users || ::chmod(folder.c_str(), kForAll) == 0 ? Result<void>() : cannot(folder, errno);
}

Result<void> apply_one(const FileChange& change, const ImageRoot& root, bool for_all_users) {
  // A link is kept; its target is written.
  const std::string path = change.text || change.of_target ? root.target_on_this_machine(change.path)
                                                           : root.entry_on_this_machine(change.path);
  if (path.empty()) {
    return cannot(root.shown(change.path), ELOOP);
  }
  if (!change.text && !change.link_to) {
    return ::unlink(path.c_str()) == 0 || errno == ENOENT ? Result<void>() : cannot(path, errno);
  }
  RETURN_IF_ERROR(make_folders(fs::path(path).parent_path(), for_all_users));
  constexpr mode_t kProgram = 0755;
  constexpr mode_t kFile = 0644;
  return change.text ? replace(path, *change.text, change.executable ? kProgram : kFile)
                     : replace_link(path, *change.link_to);
}

}  // namespace

std::optional<std::string> read_file(const std::string& path) {
  constexpr std::size_t kLongest = std::size_t{1} << 28;  // enough for a plugin with debugging symbols
  std::string text;
  return read_small_file(path, kLongest, text).reason.empty() ? std::optional(std::move(text)) : std::nullopt;
}

std::optional<std::string> read_link(const std::string& path) {
  std::error_code error;
  const fs::path target = fs::read_symlink(path, error);
  return error ? std::nullopt : std::optional(target.string());
}

Result<void> apply(const Plan& plan, const ImageRoot& root) {
  for (const FileChange& change : plan.changes) {
    RETURN_IF_ERROR(apply_one(change, root, plan.for_all_users));
  }
  for (const std::string& folder : plan.folders_to_remove) {
    ::rmdir(root.entry_on_this_machine(folder).c_str());  // only where it is empty
  }
  return {};
}

}  // namespace rollcall::install
