#include "runtime/storage/own_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <deque>

#include "runtime/base/error.h"
#include "runtime/base/text.h"

namespace rollcall::storage {
namespace {

constexpr mode_t kAnybodyWrites = S_IWOTH;
constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
constexpr int kMostLinks = 40;  // as the kernel's own limit

/// The walk from the root: one open folder at a time, so that nothing can be exchanged between check and use.
class Walk {
 public:
  explicit Walk(const std::string& path) {
    push_front(path);
    enter_root();
  }
  ~Walk() { ::close(folder_); }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  FolderObjection run() {
    while (!names_.empty()) {
      const std::string name = std::move(names_.front());
      names_.pop_front();
      if (FolderObjection objection = step(name); !objection.reason.empty()) {
        return objection;
      }
    }
    const bool usable = ::faccessat(folder_, ".", W_OK | X_OK, AT_EACCESS) == 0;
    return usable ? FolderObjection{} : FolderObjection{fmt::format("{}: {}", place_, errno_text(errno)), false};
  }

 private:
  void enter_root() {
    if (folder_ >= 0) {
      ::close(folder_);
    }
    folder_ = ::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    place_.clear();
    exposed_ = false;
  }

  void push_front(const std::string& path) {
    const std::vector<std::string> parts = split(path, '/');
    for (std::size_t left = parts.size(); left > 0; --left) {
      if (const std::string& part = parts[left - 1]; !part.empty() && part != ".") {
        names_.push_front(part);
      }
    }
  }

  FolderObjection failed(const std::string& where) { return {fmt::format("{}: {}", where, errno_text(errno)), false}; }

  FolderObjection step(const std::string& name) {
    const std::string where = place_ + "/" + name;
    struct stat status {};
    if (::fstatat(folder_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      const bool made =
          errno == ENOENT && (::mkdirat(folder_, name.c_str(), exposed_ ? 0700 : 0777) == 0 || errno == EEXIST);
      if (!made || ::fstatat(folder_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
        return failed(where);
      }
    }
    if (S_ISLNK(status.st_mode)) {
      return exposed_ ? FolderObjection{where + " is a link", true} : follow(name, where);
    }
    return enter(name, where);
  }

  FolderObjection follow(const std::string& name, const std::string& where) {
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlinkat(folder_, name.c_str(), target.data(), target.size() - 1);
    if (length < 0 || ++links_ > kMostLinks) {
      return {where + ": a link that leads nowhere", false};
    }
    const std::string path(target.data(), static_cast<std::size_t>(length));
    push_front(path);
    if (path.starts_with('/')) {
      enter_root();
    }
    return {};
  }

  FolderObjection enter(const std::string& name, const std::string& where) {
    const int next = ::openat(folder_, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status {};
    if (next < 0 || ::fstat(next, &status) != 0) {
      FolderObjection objection = failed(where);
      if (next >= 0) {
        ::close(next);
      }
      return objection;
    }
    ::close(folder_);
    folder_ = next;
    place_ = where;
    const bool trusted = status.st_uid == ::geteuid() || status.st_uid == 0;
    if (exposed_ && !trusted) {
      return {fmt::format("{} belongs to user {}", where, status.st_uid), true};
    }
    const bool sticky_and_roots = status.st_uid == 0 && (status.st_mode & S_ISVTX) != 0;
    if (exposed_ && (status.st_mode & kOthersWrite) != 0 && !sticky_and_roots) {
      return {fmt::format("others may write to {}", where), true};
    }
    exposed_ = (status.st_mode & kAnybodyWrites) != 0;
    return {};
  }

  std::deque<std::string> names_;
  int folder_ = -1;
  std::string place_;
  bool exposed_ = false;  ///< anybody may have put something into this folder
  int links_ = 0;
};

}  // namespace

FolderObjection make_own_folder(const std::string& path) {
  if (!path.starts_with('/')) {
    return {path + " is no absolute path", false};
  }
  return Walk(path).run();
}

}  // namespace rollcall::storage
