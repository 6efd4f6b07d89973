#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/small_file.h"

namespace rollcall {

// A file may hold code or settings that run for other users than its author. These functions check who can have
// written such a file.

/// The owners whose files are trusted: root, `users`, and the owner of the root folder, who could replace any file. (A
/// user namespace without root, such as a container, shows that owner as user 65534, like every user whom the namespace
/// does not map. Root cannot be distinguished there, but files that others may write to are still refused.)
struct TrustedOwners {
  bool anybody = false;           ///< trusts all files and checks nothing
  std::vector<uid_t> users = {};  ///< trusted besides root
};

/// Returns `trusted` with the owner of `path` added, where `path` exists. Follows links.
[[nodiscard]] TrustedOwners with_owner_of(const std::string& path, TrustedOwners trusted);

/// Why a file or folder is not trusted, and the command that changes that.
struct TrustProblem {
  std::string reason;  ///< "others may write to /etc/rollcall"
  std::string remedy;  ///< "chmod g-w /etc/rollcall"
};

/// Returns why `path`, which has `status`, is not trusted: a user outside `trusted` owns it, or others may write to
/// it, be it everybody (a sticky bit does not help) or a group. Two groups are allowed: group 0, whose members are
/// administrators, and a group with the owner's number, which is the private group that useradd(8) makes (a umask of
/// 0002 leaves files writable for it). The name service is not asked, because it may not answer. Only the owner of a
/// link matters. Pure.
[[nodiscard]] std::optional<TrustProblem> trust_problem(const struct stat& status, const std::string& path,
                                                        const TrustedOwners& trusted);

/// Checks the absolute `path`, every folder from the root to it, and every link with the folders that it leads through.
/// Entries that cannot be examined are skipped: reading the file reports the reason.
[[nodiscard]] std::optional<TrustProblem> trust_problem_on_path(const std::string& path, const TrustedOwners& trusted);

/// Checks `path` like trust_problem_on_path() and reads it like read_small_file(). The opened files themselves are
/// checked (openat(2), fstat(2)), so nobody can replace a file between the check and the reading. Where `trust_problem`
/// is set, nothing was read and the result's reason is empty.
[[nodiscard]] FileReading read_trusted_file(const std::string& path, const TrustedOwners& trusted, std::size_t most,
                                            std::string& content, std::optional<TrustProblem>& trust_problem);

}  // namespace rollcall
