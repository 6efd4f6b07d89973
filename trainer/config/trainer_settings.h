#pragma once

#include "runtime/settings/settings.h"

namespace rollcall::config {

/// The settings of `rollcall-train`, a superset of the Jülich recipe's flags. Same mechanism as the launch settings:
/// `--batch-size=64`, ROLLCALL_BATCH_SIZE, or `batch-size = 64` in table [trainer] of a TOML file.
[[nodiscard]] settings::Table trainer_table();

}  // namespace rollcall::config
