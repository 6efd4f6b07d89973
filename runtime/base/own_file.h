#pragma once

#include <sys/stat.h>

#include <string>

namespace rollcall {

// Files in folders that others may write to as well, a project's or /tmp: whose they are, and how they are written
// without touching anybody else's.

/// Whether a group other than `user`'s own may write to what `status` describes. A group numbered as the user is taken
/// for the user's private one, which many systems make, with a umask of 0002.
[[nodiscard]] inline bool a_group_may_write(const struct stat& status, uid_t user) {
  return (status.st_mode & S_IWGRP) != 0 && status.st_gid != user;
}

/// Whether it belongs to root or to `user`.
[[nodiscard]] inline bool is_roots_or(uid_t user, const struct stat& status) {
  return status.st_uid == 0 || status.st_uid == user;
}

/// Whether what `status` is of belongs to this process's user or to root, who can do everything anyway.
[[nodiscard]] bool is_own(const struct stat& status);

/// The same for what lies in `folder`. Where the owner is somebody else, a new file there tells whom the file system
/// takes this user for: some give all files one owner, or root's files to nobody. That file has no name that others
/// could guess, and is removed at once.
[[nodiscard]] bool is_own(const struct stat& status, const std::string& folder);

/// Why what `status` is of is not this user's alone, a clause; empty where it is a regular file of this user's that
/// nobody else may read or write.
[[nodiscard]] std::string why_not_private(const struct stat& status);

/// The first 4 KiB of the file `path`, which is this user's alone and no link; never waits. Where nothing is read
/// `refusal` says why, a clause; empty: there is nothing of that name.
[[nodiscard]] std::string read_private(const std::string& path, std::string& refusal);

/// Who else may write to what `status` is of, for people: "everybody", "members of group 1001"; empty: nobody. A group
/// numbered as the user is taken for the user's private one. (Whoever may write to the folder may put another file
/// there.)
[[nodiscard]] std::string other_writers(const struct stat& status);

/// The folder that `path` lies in: "." for a name alone.
[[nodiscard]] std::string folder_of(const std::string& path);

/// Why the system refused, with `error_number`, to open the file `path`, to rename a file to it or to remove it, which
/// may be there already: a clause, "is a link", "belongs to user 1001".
[[nodiscard]] std::string why_refused(const std::string& path, int error_number);

/// A file that was opened for writing. The caller closes `descriptor`; where it is negative, `reason` says why not, a
/// clause: "belongs to user 1001"; `error_number` is errno's value where the system refused it, else 0.
struct OpenedOutput {
  int descriptor = -1;
  std::string path;
  std::string reason;
  int error_number = 0;
};

/// Opens the file `path` for writing and creates it where nothing has that name. `flags`: of open(2), O_CREAT and the
/// like not among them. In a folder of many anybody may have put something there first, so a link is not followed, and
/// what is no regular file, belongs to another user (is_own()) or has another name as well (a hard link) is refused.
/// Nothing is changed then. Never waits for a FIFO's other end.
[[nodiscard]] OpenedOutput open_output(const std::string& path, int flags);

/// Creates a file beside `path`, to be renamed to it, of a name that nobody can have taken: "<path>.<16 random
/// digits>". `flags` and the result as of open_output(); `mode` less the umask.
[[nodiscard]] OpenedOutput create_beside(const std::string& path, int flags, mode_t mode = 0666);

}  // namespace rollcall
