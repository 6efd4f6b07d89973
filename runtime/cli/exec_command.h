#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::cli {

struct CommandContext;

/// `rollcall exec`: resolves this step, applies the patch to this process and becomes the program. Returns only an
/// error.
[[nodiscard]] Result<void> run_exec(CommandContext& context);

/// Becomes `program` (name first, looked up in this process's PATH); open standard files and signal dispositions stay
/// as they are. Returns only where that failed: the errno value.
[[nodiscard]] int become_program(const std::vector<std::string>& program);

}  // namespace rollcall::cli
