#pragma once

#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "trainer/metrics/startup_trace.h"

namespace rollcall::train {

/// Runs `rollcall-train` from its command line to the last checkpoint and returns the exit code
/// (contract/exit_codes.h). `arguments` excludes the program's name; `trace` has what happened before main(). Prints
/// each failure once for all ranks. Never throws.
[[nodiscard]] int run(const Environment& environment, const std::vector<std::string>& arguments,
                      metrics::StartupTrace trace) noexcept;

}  // namespace rollcall::train
