#pragma once

#include <ostream>

#include "runtime/base/environment.h"
#include "runtime/base/error.h"

namespace rollcall::cli {

/// Prints the error's line, except where it is one that every task of the step has alike (Usage, Configuration) and
/// this is not rank 0 of it: one line a step, not one a task. Returns the process's exit code.
int report_error(const Error& error, const Environment& environment, std::ostream& err);

}  // namespace rollcall::cli
