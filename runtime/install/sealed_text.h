#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rollcall::install {

/// Text that rollcall wrote knows itself again: its first line carries a checksum of the rest. So what somebody edited
/// since is told from what may be replaced or taken back, without a list of files kept elsewhere. All pure.

enum class Seal {
  Intact,   ///< written by rollcall, unchanged since
  Edited,   ///< written by rollcall, changed since: somebody's work
  Foreign,  ///< not written by rollcall
};

/// `text` as a whole file, under a first line in the comment syntax of Slurm's files and TOML ("# ...").
[[nodiscard]] std::string seal(std::string_view text);
[[nodiscard]] Seal seal_of(std::string_view file);

/// `file` with `lines` appended between two marking lines. `lines` ends with a line feed. Whatever the file held stays.
/// The words config_owner=, log= and rollcall= in it are not sealed: administrators may write them there by hand.
[[nodiscard]] std::string with_block(std::string_view file, std::string_view lines);
/// Whether the file has such a block, and in which state; nothing: it has none.
[[nodiscard]] std::optional<Seal> block_of(std::string_view file);
/// What stands in its block, where that is Intact; otherwise empty. Points into `file`.
[[nodiscard]] std::string_view lines_of_block(std::string_view file);
/// The file as it was before with_block().
[[nodiscard]] std::string without_block(std::string_view file);

}  // namespace rollcall::install
