#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/believed_file.h"
#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/base/this_process.h"
#include "runtime/settings/settings.h"

namespace rollcall::settings {

/// The section of a site profile that says which site it is for; the first one of its file.
inline constexpr std::string_view kSiteSection = "site";

/// What this machine says about itself. Every clue is only compared with what profiles say, never used as a path.
struct SiteClues {
  std::string variable;  ///< $SYSTEMNAME; empty: none
  std::string file;      ///< the first line of /etc/FZJ/systemname
  std::string cluster;   ///< $SLURM_CLUSTER_NAME, which Slurm sets in jobs
  std::string host;      ///< gethostname(2)
};

[[nodiscard]] SiteClues clues_of_this_machine(const Environment& environment);

/// The folder share/rollcall/site_config above the program or plugin that this code is part of: where `cmake --install`
/// puts the profiles; the build folder has it, too. Nothing where there is none, or where others could have changed it
/// (find_above_own_file()). Not influenced by the environment.
[[nodiscard]] FoundAbove installed_site_folder();

/// The profile of `folder` that fits best: the strongest clue decides, then the order of the files' names. Only the
/// [site] sections are read. A profile that cannot be read or parsed is an error (Configuration).
[[nodiscard]] Result<std::optional<SiteProfile>> recognise_site(const std::optional<std::filesystem::path>& folder,
                                                                const SiteClues& clues);

/// Reads the profile `site.file`, notes it in `settings`, applies it and its locks. `section`: as in apply_toml_file;
/// locks are names of launch settings. Errors: those of apply_toml_file; an unknown key or a wrong type in [site]; an
/// unknown setting in `locked`; others than `owners` could have changed the file.
[[nodiscard]] Result<void> apply_site_profile(Settings& settings, SiteProfile site, std::string_view section,
                                              const Believed& owners);

}  // namespace rollcall::settings
