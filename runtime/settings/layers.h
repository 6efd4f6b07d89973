#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/base/trusted_file.h"
#include "runtime/settings/settings.h"

namespace rollcall::settings {

// The layers above a table's defaults, lowest first: site profile < the user's file < ROLLCALL_* < `--ddp=` or command
// line. Each function returns the first error; what was applied before it stays applied.

/// The table of a TOML file that only rollcall-train reads: `[trainer]`.
inline constexpr std::string_view kTrainerSection = "trainer";

/// Applies a TOML file (v1.0). A missing file is an error only if it is `required`. With a `section` only that table of
/// the file is read, otherwise everything except the sections of programs. Errors: NoInput if the file cannot be read,
/// otherwise Configuration with file and line. Never call it as root with a path that a user named.
[[nodiscard]] Result<void> apply_toml_file(Settings& settings, const std::string& path, bool required,
                                           std::string_view section = {});

/// Applies ROLLCALL_* variables. Those of contract/env_vars.h are not settings and are skipped, and so are those of
/// `other_tables`, the program's other Settings. If these are given, any other ROLLCALL_ name is refused. Otherwise the
/// program cannot distinguish a setting of another program from a typing error, and refuses only names that are similar
/// to one of its own.
[[nodiscard]] Result<void> apply_environment(Settings& settings, const Environment& environment,
                                             std::span<const Table> other_tables = {});

/// Applies "key=value,key=value" as in `--ddp=...`. A comma inside a list value is written as '+'. A switch without a
/// value is true. "" applies nothing. `origin` is the option with the text.
[[nodiscard]] Result<void> apply_key_values(Settings& settings, std::string_view text, const std::string& origin);

/// What the plugin's line in plugstack.conf says about the site profile.
struct PluginProfile {
  std::optional<std::string> file = {};  ///< config= of the line; unset if it has none or is unknown
  std::string doubt = {};             ///< why `file` is unknown, see Settings::set_site_doubt(); empty if it is known
  TrustedOwners owners = {};          ///< trusted owners of a profile, besides the owner of this program or plugin
  std::optional<Error> refusal = {};  ///< why the line must not be used; unset if it may
};

/// Makes a PluginProfile from config= and config_owner= of the line, which are empty if it lacks them. `config_owner`
/// is "any", or the ID of a user who is trusted besides root and the owner of this program or plugin. Pure.
[[nodiscard]] PluginProfile plugin_profile(const std::string& config, const std::string& config_owner);

/// Checks that only root, `owners` and the owner of the plugin `path` could have changed it. Error: Configuration.
[[nodiscard]] Result<void> check_plugin(const std::string& path, const TrustedOwners& owners);

/// Returns the error for a file `subject` through which others could run code as any user.
[[nodiscard]] Error refuse_untrusted(const std::string& subject, const TrustProblem& trust_problem);

/// The layers below the command line of one program.
struct StandardLayers {
  PluginProfile site = {};                   ///< if its file is unset, $ROLLCALL_SITE_CONFIG or /etc is used
  std::string_view section = {};             ///< as in apply_toml_file
  std::span<const Table> other_tables = {};  ///< as in apply_environment
};

/// Returns the settings of `table` with all layers except the command line: default < site profile (`site.file`, else
/// $ROLLCALL_SITE_CONFIG, else /etc/rollcall/site.toml if that exists, else the installed profile for this machine, see
/// site_profile.h) < the user's file (${XDG_CONFIG_HOME:-$HOME/.config}/rollcall/config.toml, if that exists) <
/// ROLLCALL_* variables. `environment` names the user's file, so as root call it only with root's own. An error in a
/// file is `of_this_node`. A profile of `site` or /etc is read only if its owners are trusted (read_trusted_file()).
/// One that the user names is not checked.
[[nodiscard]] Result<Settings> load_settings(Table table, const Environment& environment,
                                             const StandardLayers& layers = {});

}  // namespace rollcall::settings
