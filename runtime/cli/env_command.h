#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/resolve/resolve.h"
#include "runtime/step/resolved_step.h"

namespace rollcall::cli {

/// Returns the patch as a table: variable, value, action, origin, reason. Long values are cut, which the other forms do
/// not do. Control characters are shown as '?'.
[[nodiscard]] std::string env_table(const resolve::EnvPatch& patch);

/// Adds reasons to values that an outer rollcall of this step has set (`srun --ddp rollcall env`). `alone` is what this
/// rollcall would do without the outer one. Equal values get its reason. A different value comes from settings that
/// this process cannot see (`--ddp=...`), and the reason says so. Pure.
void explain_kept(const resolve::EnvPatch& alone, resolve::EnvPatch& patch);

/// Returns lines for eval in a POSIX shell: `export NAME='value'` and `unset NAME`, without what the user set.
[[nodiscard]] std::string env_exports(const resolve::EnvPatch& patch);

/// Returns {"facts": {...}, "variables": [{name, value, action, origin, reason}], "warnings": [...], "sources": [...]}
[[nodiscard]] std::string env_json(const step::ResolvedStep& step, const settings::LaunchSettings& settings);

/// Returns the sources of the facts, and the facts, for people.
[[nodiscard]] std::string facts_text(const step::ResolvedStep& step);

/// Returns a line "rollcall: warning: ..." for each warning.
[[nodiscard]] std::string warning_lines(const std::vector<std::string>& warnings);

}  // namespace rollcall::cli
