#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/rendezvous/resolved_step.h"

namespace rollcall::cli {

struct CommandContext;

/// `rollcall exec`: resolves this step, applies the patch to this process and becomes the program. Returns only an
/// error.
[[nodiscard]] Result<void> run_exec(CommandContext& context);

/// Whether every task knows where rank 0 is. A program that starts without MASTER_ADDR fails or waits for half an hour:
/// better none starts. Every rank comes to the same conclusion, even rank 0, which knows its own host.
[[nodiscard]] Result<void> check_head_is_known(const rendezvous::ResolvedStep& step);

/// Becomes `program` (name first, looked up in this process's PATH); open standard files and signal dispositions stay
/// as they are. Returns only where that failed: the errno value.
[[nodiscard]] int become_program(const std::vector<std::string>& program);

}  // namespace rollcall::cli
