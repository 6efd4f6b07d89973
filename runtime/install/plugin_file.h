#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/slurm_files.h"

namespace rollcall::install {

/// A version of Slurm, such as 24.11.5. Slurm loads only plugins that were built for the same major and minor version.
struct SlurmVersion {
  int major = 0;  ///< 24
  int minor = 0;  ///< 11
  int micro = 0;  ///< 5

  [[nodiscard]] bool fits(const SlurmVersion& other) const { return major == other.major && minor == other.minor; }
  [[nodiscard]] std::string text() const;
};

/// A spank_rollcall.so.
struct PluginFile {
  std::string path;
  std::string bytes;
  SlurmVersion built_for;
};

/// Returns the version of Slurm that a SPANK plugin was built for, from its ELF symbol plugin_version; nothing where
/// `bytes` are not a plugin. The file is not executed. Pure.
[[nodiscard]] std::optional<SlurmVersion> plugin_version(std::string_view bytes);

/// Parses "slurm-wlm 22.05.8" or "slurm 24.11.5-1". Pure.
[[nodiscard]] std::optional<SlurmVersion> parse_slurm_version(std::string_view text);

/// Returns the version of the srun in PATH, or of the slurmd; nothing where there is none. Runs `srun --version`, which
/// needs `slurm_conf` from 24.11 on.
[[nodiscard]] std::optional<SlurmVersion> slurm_version(const Environment& environment, const std::string& slurm_conf);

/// Returns the path to which `install --site` copies the plugin at `path`: in a folder beside it or beside its
/// "slurm-22.05", "22.05-1c291ca3", which is named by the version of Slurm and the checksum of `bytes` (of the plugin
/// and its program). It is `path` where that is in such a folder. Each build has its own path, so that processes never
/// see a mapped file change. Pure.
[[nodiscard]] std::string placed_plugin(const std::string& path, const SlurmVersion& built_for, std::string_view bytes);

/// Returns the paths of the plugins for the program `rollcall` at `program`: in the same installation one for each
/// version of Slurm that it was built for (lib/rollcall/slurm-22.05/spank_rollcall.so), or that of the same build
/// folder. Pure except for `names`.
[[nodiscard]] std::vector<std::string> plugins_beside(const std::string& program, const job::ListNames& names);

/// Returns the plugin that was built for `slurm`. Where `slurm` is unknown, it returns the only one. Error: NoInput,
/// with the versions that are there. `plugins` must not be empty. Pure.
[[nodiscard]] Result<PluginFile> fitting_plugin(const std::vector<PluginFile>& plugins,
                                                const std::optional<SlurmVersion>& slurm);

}  // namespace rollcall::install
