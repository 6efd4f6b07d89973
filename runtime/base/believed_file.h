#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/small_file.h"

namespace rollcall {

// Files from which code is loaded for other users than the one who wrote them: who can have written them.

/// Whose files are believed: those of root, of `users`, and of whoever owns the root folder, who could put others in
/// their place. (In a user namespace without root, as containers are, that owner is shown as 65534 like everybody whom
/// the namespace does not know: nobody is told from root there, and what may be written by others still counts.)
struct Believed {
  bool anybody = false;  ///< nothing is judged
  std::vector<uid_t> users = {};
};

/// These and the owner of what `path` leads to, where that is there.
[[nodiscard]] Believed with_owner_of(const std::string& path, Believed believed);

/// Why something is not believed, and what changes that.
struct Disbelief {
  std::string reason;  ///< "others may write to /etc/rollcall"
  std::string cure;    ///< "chmod g-w /etc/rollcall"
};

/// What speaks against `path`, of which `status` is: neither root nor one of `believed` owns it, or others may write to
/// it: everybody, also where a sticky bit keeps them from removing what is there, or a group. Two groups are nobody
/// else: root's own (0), whose members are administrators; and one numbered as the owner, the private group that
/// useradd(8) makes, with which a umask of 0002 leaves files open to it. (The name service could tell more, but must
/// not be waited for.) Of a link only the owner counts. Pure.
[[nodiscard]] std::optional<Disbelief> disbelief(const struct stat& status, const std::string& path,
                                                 const Believed& believed);

/// The same of the way to `path` (absolute): of every folder from the root on, of every link and the folders that it
/// leads through, and of the file itself. What cannot be looked at is passed over: reading it says why.
[[nodiscard]] std::optional<Disbelief> disbelief_on_the_way(const std::string& path, const Believed& believed);

/// read_small_file() of a file on whose way nothing speaks against it. What is judged is what is opened (openat(2),
/// fstat(2)): nobody can put another file there between the judgement and the reading. Where `disbelief` is set,
/// nothing was read, and the result's reason is empty.
[[nodiscard]] FileReading read_believed_file(const std::string& path, const Believed& believed, std::size_t most,
                                             std::string& content, std::optional<Disbelief>& disbelief);

}  // namespace rollcall
