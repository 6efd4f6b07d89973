#pragma once

#include <optional>
#include <string>

#include "runtime/base/environment.h"

namespace rollcall::job {

/// The site profile that this node's plugstack.conf gives the plugin by `config=`.
struct PluginProfile {
  std::optional<std::string> file;  ///< it is there; nothing: none is named, or what is named cannot be told
  std::string doubt;                ///< why not: "/etc/slurm/plugstack.conf: permission denied"; empty: all is known
};

/// So that a program without `srun --ddp` sees the settings that the plugin sees. Reads slurm.conf (SLURM_CONF, else
/// the usual places), plugstack.conf and what these include: regular files of at most 1 MiB; those of plugstack.conf
/// belong to root or to slurm.conf's owner. Looks for nothing where `environment` names a profile itself
/// (ROLLCALL_SITE_CONFIG). For a process of the user's own only: SLURM_CONF is the user's. The plugin knows its line
/// and never asks.
[[nodiscard]] PluginProfile profile_of_plugin(const Environment& environment);

}  // namespace rollcall::job
