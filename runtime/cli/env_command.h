#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/resolve/resolve.h"
#include "runtime/step/resolved_step.h"

namespace rollcall::cli {

/// The patch as an aligned table: variable, value, action, origin, reason. Long values are cut (the other
/// forms have them whole), control characters shown as '?'.
[[nodiscard]] std::string env_table(const resolve::EnvPatch& patch);

/// Gives what an enclosing rollcall of this step set (`srun --ddp rollcall env`) the reasons of `alone`, which is what
/// this one would do without the other: the same value has the same reason. A value that this one would make otherwise
/// comes from settings that it does not see (`--ddp=...`): that is said, with its own. Pure.
void explain_kept(const resolve::EnvPatch& alone, resolve::EnvPatch& patch);

/// Lines that a POSIX shell can eval: `export NAME='value'` and `unset NAME`. What the user set is left out.
[[nodiscard]] std::string env_exports(const resolve::EnvPatch& patch);

/// {"facts": {...}, "variables": [{name, value, action, origin, reason}], "warnings": [...], "sources": [...]}
[[nodiscard]] std::string env_json(const step::ResolvedStep& step, const settings::LaunchSettings& settings);

/// Who was asked for the facts, and the facts themselves.
[[nodiscard]] std::string facts_text(const step::ResolvedStep& step);

/// "rollcall: warning: ..." one a line.
[[nodiscard]] std::string warning_lines(const std::vector<std::string>& warnings);

}  // namespace rollcall::cli
