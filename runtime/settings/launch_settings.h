#pragma once

#include <optional>
#include <span>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::settings {

/// The settings of launching: what the plugin, `rollcall env`, `rollcall exec` and the trainer's rendezvous read.
[[nodiscard]] Table launch_table();

/// The launch settings with every layer below the command line applied; see load_settings(). `site_file`: the site
/// profile that plugstack.conf or an option names. `other_tables`: as in apply_environment().
[[nodiscard]] Result<Settings> load_launch_settings(const Environment& environment,
                                                    std::optional<std::string> site_file = std::nullopt,
                                                    std::span<const Table> other_tables = {});

}  // namespace rollcall::settings
