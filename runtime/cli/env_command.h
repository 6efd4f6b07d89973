#pragma once

#include "runtime/base/result.h"

namespace rollcall::cli {

struct CommandContext;

/// `rollcall env`: resolves this step and prints what would be done to the environment.
[[nodiscard]] Result<void> run_env(CommandContext& context);

}  // namespace rollcall::cli
