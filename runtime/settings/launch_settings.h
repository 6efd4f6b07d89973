#pragma once

#include "runtime/settings/settings.h"

namespace rollcall::settings {

/// The settings of launching: what the plugin, `rollcall env`, `rollcall exec` and the trainer's rendezvous read.
[[nodiscard]] Table launch_table();

}  // namespace rollcall::settings
