#pragma once

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::cli {

struct CommandContext;

/// `rollcall install`: --user, --site or --status.
[[nodiscard]] Result<void> run_install(CommandContext& context);
/// `rollcall uninstall`: --user or --site.
[[nodiscard]] Result<void> run_uninstall(CommandContext& context);

/// The options of both that take a value: --slurm-conf, --plugin, --profile, --root.
[[nodiscard]] settings::Table install_table();

}  // namespace rollcall::cli
