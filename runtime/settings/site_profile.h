#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::settings {

/// The section of a site profile that says which site it is for; the first one of its file.
inline constexpr std::string_view kSiteSection = "site";

/// [site] of a profile.
struct SiteSection {
  std::string name;
  std::vector<std::string> systemname;  ///< values of $SYSTEMNAME and /etc/FZJ/systemname
  std::vector<std::string> cluster;     ///< Slurm's ClusterName
  std::vector<std::string> hosts;       ///< patterns of host names as in fnmatch(3): "jwb*.juwels"
  std::vector<std::string> locked;      ///< settings that only the profile may set
};

/// What this machine says about itself. Every clue is only compared with what profiles say, never used as a path.
struct SiteClues {
  std::string variable;  ///< $SYSTEMNAME; empty: none
  std::string file;      ///< the first line of /etc/FZJ/systemname
  std::string cluster;   ///< $SLURM_CLUSTER_NAME, which Slurm sets in jobs
  std::string host;      ///< gethostname(2)
};

[[nodiscard]] SiteClues clues_of_this_machine(const Environment& environment);

/// How `section` fits the clues: "SYSTEMNAME=jedi", "cluster name jedi"; nothing where it does not. `strength` 0 asks
/// about the strongest clue only, in the order of SiteClues up to 3. Names compare without regard to case. Pure.
[[nodiscard]] std::optional<std::string> fits(const SiteSection& section, const SiteClues& clues, int strength);

/// The folder share/rollcall/site_config above the program or plugin that this code is part of: where `cmake --install`
/// puts the profiles; the build folder has it, too. Nothing where there is none. Not influenced by the environment.
[[nodiscard]] std::optional<std::string> installed_site_folder();

/// The profile of `folder` that fits best: the strongest clue decides, then the order of the files' names. Only the
/// [site] sections are read. A profile that cannot be read or parsed is an error (Configuration).
[[nodiscard]] Result<std::optional<SiteProfile>> recognise_site(const std::optional<std::string>& folder,
                                                                const SiteClues& clues);

/// Reads the profile `site.file`, notes it in `settings`, applies it and its locks. `section`: as in apply_toml_file;
/// locks are names of launch settings. Errors: those of apply_toml_file; an unknown key or a wrong type in [site]; an
/// unknown setting in `locked`.
[[nodiscard]] Result<void> apply_site_profile(Settings& settings, SiteProfile site, std::string_view section);

}  // namespace rollcall::settings
