#pragma once

#include <string_view>

namespace rollcall::cli {

/// Bash functions that complete the programs beside `rollcall` (rollcall-train, rollcall-pack, rollcall-checkpoint),
/// each by itself and as `rollcall NAME`. What they complete is read from the program's own `--help`, once in a shell:
/// this program knows nothing of theirs, and stays as small as it is.
[[nodiscard]] std::string_view program_completion();

}  // namespace rollcall::cli
