#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::settings {

/// How one program reads the layers below its command line.
struct StandardLayers {
  std::optional<std::string> site_file = {};  ///< the site profile; without it $ROLLCALL_SITE_CONFIG or /etc decides
  std::string_view section = {};              ///< as in apply_toml_file
  std::span<const Table> other_tables = {};   ///< as in apply_environment
};

/// Settings of `table` with all layers but the command line applied: default < site profile (`site_file`, else
/// $ROLLCALL_SITE_CONFIG, else /etc/rollcall/site.toml where that exists, else the installed profile that fits this
/// machine, see site_profile.h) < the user's file
/// (${XDG_CONFIG_HOME:-$HOME/.config}/rollcall/config.toml where it exists) < ROLLCALL_* variables.
/// Reads files: as root call it only with an `environment` of root's own, for it names the user's file.
[[nodiscard]] Result<Settings> load_settings(Table table, const Environment& environment,
                                             const StandardLayers& layers = {});

}  // namespace rollcall::settings
