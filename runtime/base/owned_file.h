#pragma once

#include <sys/stat.h>

#include <string>

namespace rollcall {

// These functions check who owns a file, and write files safely in folders that other users may write to, such as a
// project's folder or /tmp.

/// Returns whether a group other than `user`'s private one may write to a file with this `status`. A group with the
/// user's number is the private group, which many systems create together with a umask of 0002.
[[nodiscard]] inline bool a_group_may_write(const struct stat& status, uid_t user) {
  return (status.st_mode & S_IWGRP) != 0 && status.st_gid != user;
}

/// Returns whether a file with this `status` belongs to root or to `user`.
[[nodiscard]] inline bool is_roots_or(uid_t user, const struct stat& status) {
  return status.st_uid == 0 || status.st_uid == user;
}

/// Returns whether a file with this `status` belongs to this process's user, or to root, who may do everything.
[[nodiscard]] bool is_own(const struct stat& status);

/// Returns whether a file in `folder` is this user's, also where the file system maps owners: some give all files one
/// owner, or root's files to `nobody`. Where the owner differs, this function creates a file of a random name in
/// `folder`, compares its owner and removes it.
[[nodiscard]] bool is_own(const struct stat& status, const std::string& folder);

/// Returns a clause that says why a file with this `status` is not private. Empty where it is a regular file of this
/// user that nobody else may read or write.
[[nodiscard]] std::string why_not_private(const struct stat& status);

/// Reads the first 4 KiB of the file `path`, which must be private and not a link. Never waits. Where nothing is read,
/// `refusal` is a clause with the reason, or empty where the file does not exist.
[[nodiscard]] std::string read_private(const std::string& path, std::string& refusal);

/// Names the other users who may write to a file with this `status`: "everybody", "members of group 1001"; empty where
/// nobody else may. A group with the user's number is the user's private one. (Whoever may write to the folder can
/// replace the file.)
[[nodiscard]] std::string other_writers(const struct stat& status);

/// Returns the folder of `path`: "." where it has none.
[[nodiscard]] std::string folder_of(const std::string& path);

/// Explains why the system refused, with `error_number`, to open, replace or remove the file `path`. Returns a clause:
/// "is a link", "belongs to user 1001".
[[nodiscard]] std::string why_refused(const std::string& path, int error_number);

/// Returns what to try where the system refused, with `error_number`, to create, write, read back, rename or remove a
/// file. 0: the cause is unknown. `otherwise` is the action that helps in any case: "naming another --run-dir".
[[nodiscard]] std::string what_to_try(int error_number, const std::string& otherwise);

/// A file that was opened for writing. The caller closes `descriptor`. Where that is negative, `reason` is a clause
/// that says why ("belongs to user 1001"), and `error_number` is errno where the system refused it, else 0.
struct OpenedOutput {
  int descriptor = -1;
  std::string path;
  std::string reason;
  int error_number = 0;
};

/// Opens the file `path` for writing and creates it where it does not exist. `flags` are those of open(2) without
/// O_CREAT. Another user may have created `path` in a shared folder. Therefore links are not followed, and a file is
/// refused, and left unchanged, where it is not a regular file, belongs to another user (is_own()) or has a second hard
/// link. Never waits for the other end of a FIFO.
[[nodiscard]] OpenedOutput open_output(const std::string& path, int flags);

/// Creates a file beside `path` that the caller renames to `path`. Its name, "<path>.<16 random digits>", cannot be
/// guessed. `flags` and the result are those of open_output(); the umask applies to `mode`.
[[nodiscard]] OpenedOutput create_beside(const std::string& path, int flags, mode_t mode = 0666);

}  // namespace rollcall
