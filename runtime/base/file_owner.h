#pragma once

#include <sys/stat.h>

namespace rollcall {

/// Whether a group other than `user`'s own may write to what `status` describes. A group numbered as the user is taken
/// for the user's private one, which many systems make, with a umask of 0002.
[[nodiscard]] inline bool a_group_may_write(const struct stat& status, uid_t user) {
  return (status.st_mode & S_IWGRP) != 0 && status.st_gid != user;
}

/// Whether anybody may, or such a group. (An access control list that gives more shows in the group's bits: acl(5).)
[[nodiscard]] inline bool others_may_write(const struct stat& status, uid_t user) {
  return (status.st_mode & S_IWOTH) != 0 || a_group_may_write(status, user);
}

/// Whether it belongs to root or to `user`.
[[nodiscard]] inline bool is_roots_or(uid_t user, const struct stat& status) {
  return status.st_uid == 0 || status.st_uid == user;
}

}  // namespace rollcall
