#pragma once

#include <optional>
#include <string>

#include "runtime/settings/layers.h"
#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {

/// What the user asked for by `--ddp[=...]`.
struct DdpOption {
  bool enabled = true;
  std::string key_values;  ///< "port.range=20000-20999,debug=on", as written; empty: nothing beyond the site's settings
};

/// Reads the argument as SPANK hands it over. Slurm writes a bare `--ddp` in four ways, by place and version: a null
/// pointer, "", "(null)" and (from `--ddp=`) "" again; all mean "on". "off" turns an outer --ddp off for this step.
/// Everything else is settings, which are checked where they are loaded: once on the submitting host (launch.h), and in
/// each task (task.h).
[[nodiscard]] DdpOption parse_option(const char* argument);

/// The option's entry for spank_option_register; `callback` is called for every --ddp that Slurm meets, at times twice.
[[nodiscard]] spank_option ddp_option(spank_opt_cb_f callback);

/// `config=PATH` and `config_owner=any|UID` among the arguments of this plugin's line in plugstack.conf.
[[nodiscard]] settings::PluginProfile site_profile(int argument_count, char** arguments);

/// The PATH of `task_prolog=PATH`: the line stands in a user's own plugstack.conf; see launch.h.
[[nodiscard]] std::optional<std::string> task_prolog(int argument_count, char** arguments);

}  // namespace rollcall::spank
