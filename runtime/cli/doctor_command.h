#pragma once

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::cli {

struct CommandContext;

/// The options of `rollcall doctor` that take a value: --only, --skip, --collectives. They have no file and no
/// variable.
[[nodiscard]] settings::Table doctor_table();

/// `rollcall doctor`: examines the step or this machine, prints one report. Errors (Unavailable): a check failed.
[[nodiscard]] Result<void> run_doctor(CommandContext& context);

}  // namespace rollcall::cli
