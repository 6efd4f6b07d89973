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

/// How these functions read: the file's text, or nothing where it cannot be read. Tests pass a map.
using ReadFile = std::function<std::optional<std::string>(const std::string& path)>;

/// How they list a folder: the names in it, sorted; none where it cannot be read.
using ListNames = std::function<std::vector<std::string>(const std::string& folder)>;

/// This machine's own way to list.
[[nodiscard]] std::vector<std::string> names_in(const std::string& folder);

/// The lines of slurm.conf as Slurm's own reader has them (src/common/parse_config.c): what follows a `#` is left out,
/// a line that ends with `\` goes on in the next one, and `\` before any other character stands for that character.
[[nodiscard]] std::vector<std::string> slurm_conf_lines(const std::string& text);

/// The `key=value` pairs of such a line, in order, up to what is none. Spaces may stand around the `=` and a value may
/// be "in quotes", which are left out.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> slurm_conf_pairs(std::string_view line);

/// Where slurm.conf usually is: also where slurmd keeps it of a Slurm without files on its nodes ("configless").
inline constexpr std::array kSlurmConfPlaces{"/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf",
                                             "/run/slurm/conf/slurm.conf", "/usr/local/etc/slurm.conf",
                                             "/opt/slurm/etc/slurm.conf"};

/// SLURM_CONF, else the first of the usual places that can be read; empty: none. In a job Slurm sets the variable.
[[nodiscard]] std::string slurm_conf_in_force(const Environment& environment);

/// The last value of `key` (any case) in slurm.conf at `path` and the files that it includes; nothing where it is
/// unset. Lines are read as Slurm reads them (slurm_conf_lines()). Included names without a leading '/' stand beside
/// `path`. Wildcards are not followed.
[[nodiscard]] std::optional<std::string> slurm_conf_value(const std::string& path, std::string_view key,
                                                          const ReadFile& read);

/// The first file that `path` includes, as a full path.
[[nodiscard]] std::optional<std::string> first_include(const std::string& path, const ReadFile& read);

/// A line of plugstack.conf that loads rollcall's plugin.
struct PluginLine {
  std::string file;          ///< in which the line stands
  std::string plugin;        ///< path of the .so
  bool required = false;     ///< else optional
  std::string config;        ///< its config=; empty: none
  std::string config_owner;  ///< its config_owner=; empty: none
  std::string task_prolog;   ///< its task_prolog=: a user's installation; empty: the site's
  std::string program;       ///< its rollcall=; empty: the one above the plugin
};

/// All lines of plugstack.conf at `path` and the files that it includes (wildcards as glob(3) has them) that load
/// rollcall's plugin, in order: spank_rollcall.so, or what has that plugin's name for SPANK under another.
[[nodiscard]] std::vector<PluginLine> plugin_lines(const std::string& path, const ReadFile& read,
                                                   const ListNames& names);

/// plugstack.conf of the slurm.conf at `path`: its PlugStackConfig, or plugstack.conf beside it.
[[nodiscard]] std::string plugstack_of(const std::string& slurm_conf, const ReadFile& read);

/// The site profile that this node's plugstack.conf gives the plugin, so that a program without `srun --ddp` sees the
/// settings that the plugin sees. Reads slurm.conf (SLURM_CONF, else the usual places), plugstack.conf and what these
/// include: regular files of at most 1 MiB. Where these have a site's line, the plugin and the files of plugstack.conf
/// are such that only root, the plugin's owner or slurm.conf's, who chooses plugstack.conf, can have changed them, or
/// the line says otherwise (`config_owner=`); else that is the result's refusal. Looks for nothing where `environment`
/// names a profile itself (ROLLCALL_SITE_CONFIG). For a process of the user's own only: SLURM_CONF is the user's. The
/// plugin knows its line and never asks.
[[nodiscard]] settings::PluginProfile profile_of_plugin(const Environment& environment);

}  // namespace rollcall::job
