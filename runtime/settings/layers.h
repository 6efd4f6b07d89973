#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::settings {

// The layers above a table's defaults, lowest first: site profile < the user's file < ROLLCALL_* < `--ddp=` or command
// line. Each function returns the first error; what was applied before it stays applied.

/// The tables of a TOML file that belong to one program: `[trainer]`.
inline constexpr std::string_view kTrainerSection = "trainer";

/// A TOML file (v1.0). `required` false: a missing file is no error. With a `section` only that table of the file is
/// read; without one everything but the sections of the programs. Errors: NoInput where the file cannot be read,
/// otherwise Configuration, naming file and line. Never call it as root with a path that a user named.
[[nodiscard]] Result<void> apply_toml_file(Settings& settings, const std::string& path, bool required,
                                           std::string_view section = {});

/// ROLLCALL_* variables; those of contract/env_vars.h are no settings and passed over. `other_tables`: the tables of
/// the program's other Settings, whose variables are passed over too. Where they are given, any other ROLLCALL_ name is
/// refused. Where not, the program cannot tell a setting of another program from a typing error, and refuses only what
/// comes near to a name of its own.
[[nodiscard]] Result<void> apply_environment(Settings& settings, const Environment& environment,
                                             std::span<const Table> other_tables = {});

/// "key=value,key=value" as in `--ddp=...`. A comma inside a list value is written as '+'; a switch alone means true.
/// "" applies nothing. `origin` is the option that held the text.
[[nodiscard]] Result<void> apply_key_values(Settings& settings, std::string_view text, const std::string& origin);

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
/// Reads files: as root call it only with an `environment` of root's own, for it names the user's file. What is wrong
/// in a file is an error `of_this_node`.
[[nodiscard]] Result<Settings> load_settings(Table table, const Environment& environment,
                                             const StandardLayers& layers = {});

}  // namespace rollcall::settings
