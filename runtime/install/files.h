#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/install/plan.h"

namespace rollcall::install {

/// A regular file's text; nothing where it is absent, no file, or not readable.
[[nodiscard]] std::optional<std::string> read_file(const std::string& path);
[[nodiscard]] std::optional<std::string> read_link(const std::string& path);

/// Names of files and folders in a folder, sorted; none where it cannot be read.
[[nodiscard]] std::vector<std::string> names_in(const std::string& folder);

/// Carries out a plan: each file is written beside its place and renamed into it, so that a reader sees the old or the
/// new one; an existing file keeps its mode and owner, a new one gets 0644. Error: CannotCreate; what was done before
/// stays, and doing it again finishes it.
[[nodiscard]] Result<void> apply(const Plan& plan);

}  // namespace rollcall::install
