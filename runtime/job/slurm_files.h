#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/settings/layers.h"

namespace rollcall::job {

/// Reads a file: returns its text, or nothing where it cannot be read. Tests pass a map.
using ReadFile = std::function<std::optional<std::string>(const std::string& path)>;

/// Lists a folder: returns the names in it, sorted; none where it cannot be read.
using ListNames = std::function<std::vector<std::string>(const std::string& folder)>;

/// Lists a folder of this machine.
[[nodiscard]] std::vector<std::string> names_in(const std::string& folder);

/// Returns the lines of slurm.conf like Slurm's parser (src/common/parse_config.c): `#` starts a comment, `\` at the
/// end of a line joins it with the next one, and `\` escapes any other character.
[[nodiscard]] std::vector<std::string> slurm_conf_lines(const std::string& text);

/// Returns the `key=value` pairs of such a line, in order, up to the first word that is not one. Blanks around `=` and
/// quotes around a value are removed.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> slurm_conf_pairs(std::string_view line);

/// The usual paths of slurm.conf, including the one that slurmd uses where nodes have no file of their own
/// ("configless").
inline constexpr std::array kSlurmConfPaths{"/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf",
                                            "/run/slurm/conf/slurm.conf", "/usr/local/etc/slurm.conf",
                                            "/opt/slurm/etc/slurm.conf"};

/// Returns SLURM_CONF, which Slurm sets in jobs, or the first readable one of the usual paths; empty where there is
/// none.
[[nodiscard]] std::string find_slurm_conf(const Environment& environment);

/// Returns the last value of `key` (in any case) in slurm.conf at `path` and the files that it includes; nothing where
/// it is unset. Included names without a leading '/' are relative to the folder of `path`. Wildcards are not expanded.
[[nodiscard]] std::optional<std::string> slurm_conf_value(const std::string& path, std::string_view key,
                                                          const ReadFile& read);

/// Returns the full path of the first file that `path` includes.
[[nodiscard]] std::optional<std::string> first_include(const std::string& path, const ReadFile& read);

/// A line of plugstack.conf that loads rollcall's plugin.
struct PluginLine {
  std::string file;          ///< the file with the line
  std::string plugin;        ///< the path of the .so file
  bool required = false;     ///< whether it is "required" instead of "optional"
  std::string config;        ///< the value of config=; empty: none
  std::string config_owner;  ///< the value of config_owner=; empty: none
  std::string task_prolog;   ///< the value of task_prolog= in a user's installation; empty: the site's installation
  std::string program;       ///< the value of rollcall=; empty: the program above the plugin
};

/// Returns the lines of plugstack.conf at `path` and the files that it includes (with wildcards as in glob(3)) that
/// load rollcall's plugin, in order: spank_rollcall.so, or a file of another name with that plugin's SPANK name.
[[nodiscard]] std::vector<PluginLine> plugin_lines(const std::string& path, const ReadFile& read,
                                                   const ListNames& names);

/// Returns the path of plugstack.conf for a slurm.conf: its PlugStackConfig, or plugstack.conf in the same folder.
[[nodiscard]] std::string plugstack_of(const std::string& slurm_conf, const ReadFile& read);

/// Returns the site profile that this node's plugstack.conf gives to the plugin, so that programs without `srun --ddp`
/// use the same settings. Reads slurm.conf (SLURM_CONF, else the usual paths), plugstack.conf and the files that they
/// include: regular files of at most 1 MiB. With a site's line, the plugin and plugstack.conf must be changeable only
/// by root, the plugin's owner or slurm.conf's owner (or as `config_owner=` says); otherwise the result has a refusal.
/// Reads nothing where `environment` has ROLLCALL_SITE_CONFIG. Call it only in a process of the user, because
/// SLURM_CONF is the user's. The plugin knows its own line and does not call it.
[[nodiscard]] settings::PluginProfile profile_of_plugin(const Environment& environment);

}  // namespace rollcall::job
