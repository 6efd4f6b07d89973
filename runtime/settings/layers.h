#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/believed_file.h"
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

/// What the plugin's line in plugstack.conf says of the site profile.
struct PluginProfile {
  std::optional<std::string> file = {};  ///< its config=; nothing: none is named, or what is named cannot be told
  std::string doubt = {};                ///< why not, see Settings::doubt_site(); empty: all is known
  Believed owners = {};               ///< whose profile is believed, besides that of this program's or plugin's owner
  std::optional<Error> refusal = {};  ///< why nothing of it may be believed
};

/// The same from the words of the line; each is empty where the line lacks it. `config_owner`: "any", or the number of
/// a user who is believed besides root and the owner of this program or plugin. Pure.
[[nodiscard]] PluginProfile plugin_profile(const std::string& config, const std::string& config_owner);

/// Error (Configuration): others than root, `owners` and the owner of the plugin `path` could have changed it.
[[nodiscard]] Result<void> check_plugin(const std::string& path, const Believed& owners);

/// The error where code could reach users through what is not believed: `subject` is the file concerned.
[[nodiscard]] Error refuse_disbelieved(const std::string& subject, const Disbelief& disbelief);

/// How one program reads the layers below its command line.
struct StandardLayers {
  PluginProfile site = {};                   ///< without its file $ROLLCALL_SITE_CONFIG or /etc decides
  std::string_view section = {};             ///< as in apply_toml_file
  std::span<const Table> other_tables = {};  ///< as in apply_environment
};

/// Settings of `table` with all layers but the command line applied: default < site profile (`site.file`, else
/// $ROLLCALL_SITE_CONFIG, else /etc/rollcall/site.toml where that exists, else the installed profile that fits this
/// machine, see site_profile.h) < the user's file
/// (${XDG_CONFIG_HOME:-$HOME/.config}/rollcall/config.toml where it exists) < ROLLCALL_* variables.
/// Reads files: as root call it only with an `environment` of root's own, for it names the user's file. What is wrong
/// in a file is an error `of_this_node`. A profile that `site` or /etc names is read only where it is believed
/// (read_believed_file()); one that the user names is theirs to choose.
[[nodiscard]] Result<Settings> load_settings(Table table, const Environment& environment,
                                             const StandardLayers& layers = {});

}  // namespace rollcall::settings
