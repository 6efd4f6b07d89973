#include "runtime/storage/folders.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <deque>

#include "runtime/base/owned_file.h"
#include "runtime/base/result.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"
#include "runtime/resolve/caches.h"
#include "runtime/storage/purge_age.h"

namespace rollcall::storage {
namespace {

constexpr mode_t kAnybodyWrites = S_IWOTH;
constexpr mode_t kGroupWrites = S_IWGRP;
constexpr mode_t kOthersWrite = kGroupWrites | kAnybodyWrites;
constexpr int kMostLinks = 40;  // as the kernel's own limit

/// Opens a path from the root, one folder at a time, so that no folder can be replaced between check and use.
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
    if (::faccessat(folder_, ".", W_OK | X_OK, AT_EACCESS) != 0) {
      return failed(place_);
    }
    return judge_last();
  }

 private:
  void enter_root() {
    if (folder_ >= 0) {
      ::close(folder_);
    }
    folder_ = ::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    place_.clear();
    exposed_ = false;
    shared_ = false;
    foreign_group_ = false;
    sticky_ = false;
  }

  void push_front(const std::string& path) {
    const std::vector<std::string> parts = split(path, '/');
    for (std::size_t left = parts.size(); left > 0; --left) {
      if (const std::string& part = parts[left - 1]; !part.empty() && part != ".") {
        names_.push_front(part);
      }
    }
  }

  /// Checks the last folder: whoever may write to it controls the code that this user's programs load.
  FolderObjection judge_last() {
    if (exposed_) {
      return {fmt::format("others may write to {} (chmod o-w {})", place_, place_), false, ""};
    }
    if (foreign_group_ && caution_.empty()) {
      caution_ = fmt::format("members of group {} may write to {}, from which your programs load code", group_, place_);
      caution_ += fmt::format("; try chmod g-w {}, or another folder", place_);
    }
    return {"", false, caution_};
  }

  FolderObjection failed(const std::string& where) {
    return {fmt::format("{}: {}", where, errno_text(errno)), false, ""};
  }

  FolderObjection step(const std::string& name) {
    const std::string where = place_ + "/" + name;
    if (exposed_ && !sticky_) {
      // Every node's /tmp is sticky, so that this folder is probably visible to all nodes.
      return {fmt::format("anybody could replace it, because {} is not sticky (chmod +t {})", place_, place_), false,
              ""};
    }
    if (foreign_group_ && !sticky_ && caution_.empty()) {
      caution_ = fmt::format("members of group {} could replace {}, because {} is not sticky", group_, where, place_);
      caution_ += fmt::format("; try chmod +t {} by its owner, or another folder", place_);
    }
    struct stat status {};
    if (::fstatat(folder_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      // Never 0777: with a umask of 0002 a group could write to everything in it.
      const mode_t mode = exposed_ || shared_ ? 0700 : 0755;
      const bool made = errno == ENOENT && (::mkdirat(folder_, name.c_str(), mode) == 0 || errno == EEXIST);
      if (!made || ::fstatat(folder_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
        return failed(where);
      }
    }
    if (S_ISLNK(status.st_mode)) {
      if (shared_ && !is_trusted(status)) {
        return belongs_to_another(where, status, exposed_);
      }
      return exposed_ ? FolderObjection{where + " is a link", true, ""} : follow(name, where);
    }
    return enter(name, where);
  }

  FolderObjection follow(const std::string& name, const std::string& where) {
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlinkat(folder_, name.c_str(), target.data(), target.size() - 1);
    if (length < 0 || ++links_ > kMostLinks) {
      return {where + ": the link cannot be followed", false, ""};
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
    if ((exposed_ || shared_) && !is_trusted(status)) {
      return belongs_to_another(where, status, exposed_);
    }
    const bool sticky_and_roots = status.st_uid == 0 && (status.st_mode & S_ISVTX) != 0;
    if (exposed_ && (status.st_mode & kOthersWrite) != 0 && !sticky_and_roots) {
      return {fmt::format("others may write to {}", where), true, ""};
    }
    exposed_ = (status.st_mode & kAnybodyWrites) != 0;
    shared_ = (status.st_mode & kGroupWrites) != 0;
    foreign_group_ = a_group_may_write(status, ::geteuid());
    sticky_ = (status.st_mode & S_ISVTX) != 0;
    group_ = status.st_gid;
    return {};
  }

  static bool is_trusted(const struct stat& status) { return is_roots_or(::geteuid(), status); }

  /// A project's folder is probably visible to all nodes, and /tmp to one.
  static FolderObjection belongs_to_another(const std::string& where, const struct stat& status, bool only_here) {
    return {fmt::format("{} belongs to user {}", where, status.st_uid), only_here, ""};
  }

  std::deque<std::string> names_;
  int folder_ = -1;
  std::string place_;
  bool exposed_ = false;        ///< everybody may write to this folder
  bool shared_ = false;         ///< a group may write to this folder
  bool foreign_group_ = false;  ///< a group that is not this user's private one may write to this folder
  bool sticky_ = false;         ///< only the owners of this folder and of an entry may replace that entry
  gid_t group_ = 0;             ///< the group of this folder
  std::string caution_;
  int links_ = 0;
};

/// Unsets a variable, instead of dropping its change, so that the value of an enclosing rollcall is removed too.
void leave_out(resolve::EnvChange& change) {
  change.action = resolve::Action::Unset;
  change.value.clear();
  change.reason = "its folder cannot be used";
}

/// Checks the virtual environment of the setting. A user's own VIRTUAL_ENV may be for another image or machine.
Result<void> check_venv_is_here(const job::JobFacts& facts, const resolve::EnvPatch& patch) {
  const resolve::EnvChange* const venv = patch.find(env::kVirtualEnv);
  if (venv == nullptr || venv->action != resolve::Action::Set ||
      ::access((venv->value + "/bin/python").c_str(), X_OK) == 0) {
    return {};
  }
  const std::string reason = errno_text(errno);
  const std::string host = facts.this_host.empty() ? this_host_name() : facts.this_host;
  Error error =
      fail("venv", venv->value, fmt::format("bin/python: {} on {}, so that another Python would run", reason, host),
           "moving the environment and its Python to a file system of all nodes", ErrorKind::NoInput);
  error.of_this_node = true;
  return error;
}

/// The objection to several caches, which is reported once: they may have the same parent folder.
struct ObjectionToCaches {
  FolderObjection objection;
  std::string first_folder;
  std::vector<std::string> variables;
};

std::string warning_of(const ObjectionToCaches& found) {
  const std::string cache = found.variables.front() + ": " + found.first_folder + ": ";
  if (found.objection.reason.empty()) {
    return cache + found.objection.caution;
  }
  const std::string others = fmt::format("{}", fmt::join(found.variables.begin() + 1, found.variables.end(), ", "));
  return cache + found.objection.reason + "; the variable is not set" +
         (others.empty() ? "" : ", and neither are " + others);
}

}  // namespace

FolderObjection make_own_folder(const std::string& path) {
  if (!path.starts_with('/')) {
    return {path + " is not an absolute path", false, ""};
  }
  return Walk(path).run();
}

Result<void> prepare_folders(const job::JobFacts& facts, resolve::EnvPatch& patch,
                             const settings::LaunchSettings& settings, const Environment& environment) {
  std::vector<ObjectionToCaches> objections;
  for (resolve::EnvChange& change : patch.changes) {
    if (change.action != resolve::Action::Set || resolve::find_cache(change.name) == nullptr) {
      continue;
    }
    const FolderObjection objection = make_own_folder(change.value);
    if (objection.reason.empty() && objection.caution.empty()) {
      continue;
    }
    auto same = std::ranges::find(objections, objection, &ObjectionToCaches::objection);
    if (same == objections.end()) {
      same = objections.insert(objections.end(), {objection, change.value, {}});
    }
    same->variables.push_back(change.name);
    if (!objection.reason.empty()) {
      leave_out(change);
    }
  }
  for (const ObjectionToCaches& found : objections) {
    (found.objection.only_here ? patch.node_warnings : patch.warnings).push_back(warning_of(found));
  }
  if (facts.rank == 0) {
    if (const auto warning = purge_warning(settings, environment, kAtLaunch)) {
      patch.warnings.push_back(*warning);
    }
  }
  return check_venv_is_here(facts, patch);
}

}  // namespace rollcall::storage
