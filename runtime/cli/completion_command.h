#pragma once

#include <string>

#include "runtime/base/result.h"

namespace rollcall::cli {

struct CommandContext;

/// `rollcall completion bash`: prints the script.
[[nodiscard]] Result<void> run_completion(CommandContext& context);

/// A bash script that completes `rollcall`: commands, options, and the fixed values after "--option=".
[[nodiscard]] std::string bash_completion();

}  // namespace rollcall::cli
