#pragma once

#include <string>
#include <string_view>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"

namespace rollcall::settings {

/// Replaces ${SCRATCH}, ${HOME}, ${USER}, ${TMPDIR}, ${SLURM_JOB_ID} and ${XDG_RUNTIME_DIR} by their values; nothing
/// else is expanded, and no shell is involved. The replaced values are not expanded again.
/// `setting` names the setting in errors: a variable that is unset or empty, or what check_path_variables() refuses.
[[nodiscard]] Result<std::string> expand_path(std::string_view path, const Environment& environment,
                                              const std::string& setting = "path");

/// Refuses what a user would expect a shell to expand and we do not: other ${NAMES}, $NAME without braces, a leading
/// "~". Every Kind::Path value has passed it.
[[nodiscard]] Result<void> check_path_variables(std::string_view path, const std::string& setting);

}  // namespace rollcall::settings
