#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/environment.h"

namespace rollcall::install {

/// Slurm loads plugins of its own major.minor only.
struct SlurmVersion {
  int major = 0;  ///< 24 of 24.11.5
  int minor = 0;  ///< 11
  int micro = 0;  ///< 5

  [[nodiscard]] bool fits(const SlurmVersion& other) const { return major == other.major && minor == other.minor; }
  [[nodiscard]] std::string text() const;
};

/// The version of Slurm that a SPANK plugin was built for, from its ELF symbol plugin_version; nothing where `bytes`
/// are no such file. Nothing of the file is executed. Pure.
[[nodiscard]] std::optional<SlurmVersion> plugin_version(std::string_view bytes);

/// "slurm-wlm 22.05.8" or "slurm 24.11.5-1" as a version. Pure.
[[nodiscard]] std::optional<SlurmVersion> parse_slurm_version(std::string_view text);

/// The Slurm whose srun is in PATH; nothing where there is none. Runs `srun --version`, which from 24.11 on wants a
/// configuration: `slurm_conf`.
[[nodiscard]] std::optional<SlurmVersion> slurm_version(const Environment& environment, const std::string& slurm_conf);

/// Where `install --site` places a plugin that it found at `path`: beside it, in a folder named after
/// the Slurm that it is for and the checksum of `bytes`, its own and its program's, "22.05-1c291ca3"; `path` itself
/// where it lies in such a folder. Two builds have two paths, so what runs never sees the file change that it has
/// mapped. Pure.
[[nodiscard]] std::string placed_plugin(const std::string& path, const SlurmVersion& built_for, std::string_view bytes);

/// spank_rollcall.so beside the program `rollcall` at `program`, installed or in a build folder; nothing where it is
/// not.
[[nodiscard]] std::optional<std::string> plugin_beside(const std::string& program);

}  // namespace rollcall::install
