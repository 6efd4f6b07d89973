#include "runtime/base/trusted_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <deque>
#include <utility>

#include "runtime/base/owned_file.h"
#include "runtime/base/result.h"
#include "runtime/base/text.h"

namespace rollcall {
namespace {

constexpr int kMostLinksFollowed = 40;  // as the kernel's own limit
constexpr int kOfEntry = O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;

/// An open file or folder and its path.
struct OpenEntry {
  int descriptor;
  std::string path;
};

/// Opens a path from the root folder, one name at a time. Every entry is checked before the next one is opened in it.
class WalkFromRoot {
 public:
  /// `access` holds the flags of open(2) for the last entry of the path.
  WalkFromRoot(TrustedOwners trusted, int access) : trusted_(std::move(trusted)), access_(access) {}
  ~WalkFromRoot() {
    while (!entries_.empty()) {
      leave();
    }
  }
  WalkFromRoot(const WalkFromRoot&) = delete;
  WalkFromRoot& operator=(const WalkFromRoot&) = delete;

  /// Opens `path`. The descriptor stays open as long as this object lives. -1: see error_number() and trust_problem().
  int open(const std::string& path) {
    if (!path.starts_with('/')) {
      error_number_ = EINVAL;
      return -1;
    }
    begin();
    push_front(path);
    while (goes_on() && !names_.empty()) {
      const std::string name = std::move(names_.front());
      names_.pop_front();
      if (name == "..") {
        if (entries_.size() > 1) {
          leave();
        }
      } else if (!name.empty() && name != ".") {
        enter(name);
      }
    }
    return goes_on() ? entries_.back().descriptor : -1;
  }

  [[nodiscard]] int error_number() const { return error_number_; }
  [[nodiscard]] const std::optional<TrustProblem>& trust_problem() const { return trust_problem_; }

 private:
  [[nodiscard]] bool goes_on() const { return error_number_ == 0 && !trust_problem_; }

  void begin() {
    trusted_ = with_owner_of("/", std::move(trusted_));
    add({::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), ""});
  }

  void push_front(const std::string& path) {
    const std::vector<std::string> parts = split(path, '/');
    names_.insert(names_.begin(), parts.begin(), parts.end());
  }

  /// Checks an entry that was just opened and keeps it. Returns its mode, or 0 where it was not opened.
  mode_t add(OpenEntry entry) {
    struct stat status {};
    if (entry.descriptor < 0) {
      error_number_ = errno;
      return 0;
    }
    entries_.push_back(std::move(entry));
    if (::fstat(entries_.back().descriptor, &status) != 0) {
      error_number_ = errno;
      return 0;
    }
    const std::string& path = entries_.back().path;
    trust_problem_ = rollcall::trust_problem(status, path.empty() ? "/" : path, trusted_);
    return status.st_mode;
  }

  void leave() {
    ::close(entries_.back().descriptor);
    entries_.pop_back();
  }

  /// Opens the entry `name` of the last folder: a folder, a link to follow, or the file.
  void enter(const std::string& name) {
    const int folder = entries_.back().descriptor;
    const std::string path = entries_.back().path + "/" + name;
    // O_DIRECTORY triggers an automount; O_PATH alone does not.
    int entry = ::openat(folder, name.c_str(), kOfEntry | O_PATH | O_DIRECTORY);
    if (entry < 0 && (errno == ENOTDIR || errno == ELOOP)) {
      entry = ::openat(folder, name.c_str(), kOfEntry | (names_.empty() ? access_ : O_PATH));
      if (entry < 0 && errno == ELOOP) {
        entry = ::openat(folder, name.c_str(), kOfEntry | O_PATH);
      }
    }
    const mode_t type = add({entry, path});
    if (goes_on() && S_ISLNK(type)) {
      follow();
    } else if (goes_on() && !S_ISDIR(type) && !names_.empty()) {
      error_number_ = ENOTDIR;
    }
  }

  void follow() {
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlinkat(entries_.back().descriptor, "", target.data(), target.size());
    if (length < 0 || ++links_ > kMostLinksFollowed) {
      error_number_ = length < 0 ? errno : ELOOP;
      return;
    }
    leave();
    const std::string to(target.data(), static_cast<std::size_t>(length));
    while (to.starts_with('/') && entries_.size() > 1) {
      leave();
    }
    push_front(to);
  }

  TrustedOwners trusted_;
  int access_;
  std::vector<OpenEntry> entries_{};  ///< the root folder and the open folders below it
  std::deque<std::string> names_{};
  int links_ = 0;
  int error_number_ = 0;
  std::optional<TrustProblem> trust_problem_{};
};

/// A sticky bit means that others shall write to the folder, so that chmod is no remedy.
std::string without_bit(const char* bit, const struct stat& status, const std::string& path) {
  return (status.st_mode & S_ISVTX) != 0 ? "a folder outside " + path : fmt::format("chmod {} {}", bit, path);
}

}  // namespace

TrustedOwners with_owner_of(const std::string& path, TrustedOwners trusted) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    trusted.users.push_back(status.st_uid);
  }
  return trusted;
}

std::optional<TrustProblem> trust_problem(const struct stat& status, const std::string& path,
                                          const TrustedOwners& trusted) {
  const uid_t owner = status.st_uid;
  if (trusted.anybody) {
    return std::nullopt;
  }
  if (owner != 0 && std::ranges::find(trusted.users, owner) == trusted.users.end()) {
    return TrustProblem{fmt::format("user {} owns {}", owner, path), fmt::format("chown root {}", path)};
  }
  if (S_ISLNK(status.st_mode)) {
    return std::nullopt;
  }
  if ((status.st_mode & S_IWOTH) != 0) {
    return TrustProblem{"others may write to " + path, without_bit("o-w", status, path)};
  }
  if (status.st_gid != 0 && a_group_may_write(status, owner)) {
    return TrustProblem{"others may write to " + path, without_bit("g-w", status, path)};
  }
  return std::nullopt;
}

std::optional<TrustProblem> trust_problem_on_path(const std::string& path, const TrustedOwners& trusted) {
  WalkFromRoot walk(trusted, O_PATH);
  (void)walk.open(path);
  return walk.trust_problem();
}

FileReading read_trusted_file(const std::string& path, const TrustedOwners& trusted, std::size_t most,
                              std::string& content, std::optional<TrustProblem>& trust_problem) {
  if (trusted.anybody) {
    return read_small_file(path, most, content);
  }
  if (!path.starts_with('/')) {
    return {0, "is not an absolute path"};
  }
  WalkFromRoot walk(trusted, O_RDONLY);
  const int file = walk.open(path);
  trust_problem = walk.trust_problem();
  if (file < 0) {
    return trust_problem ? FileReading{} : FileReading{walk.error_number(), errno_text(walk.error_number())};
  }
  return read_small_file(file, most, content);
}

}  // namespace rollcall
