#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rollcall::install {

// Files that rollcall writes begin with a checksum of the rest, so that files which were edited since can be
// distinguished from those that may be replaced or removed, without a list of files. All functions are pure.

enum class Seal {
  Intact,   ///< written by rollcall and unchanged
  Edited,   ///< written by rollcall and changed since
  Foreign,  ///< not written by rollcall
};

/// Returns a file with `text` after a line with its checksum, in the comment syntax of Slurm's files and TOML ("#
/// ...").
[[nodiscard]] std::string seal(std::string_view text);
/// Returns the state of a whole file.
[[nodiscard]] Seal seal_of(std::string_view file);

/// Returns `file` with a block in front: `lines`, which end with a line feed, between two marking lines. The checksum
/// excludes the words config_owner=, log= and rollcall=, which administrators may change.
[[nodiscard]] std::string with_block(std::string_view file, std::string_view lines);
/// Returns the state of the block in a file; nothing where there is none.
[[nodiscard]] std::optional<Seal> block_of(std::string_view file);
/// Returns the lines of the block where it is Intact, otherwise an empty text. The result points into `file`.
[[nodiscard]] std::string_view lines_of_block(std::string_view file);
/// Returns the file without the block.
[[nodiscard]] std::string without_block(std::string_view file);

}  // namespace rollcall::install
