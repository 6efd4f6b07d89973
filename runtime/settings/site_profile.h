#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/base/this_process.h"
#include "runtime/base/trusted_file.h"
#include "runtime/settings/settings.h"

namespace rollcall::settings {

/// The section of a site profile that says which site it is for. It is the first one of the file.
inline constexpr std::string_view kSiteSection = "site";

/// The names of this machine. They are only compared with those in profiles, and never used as paths.
struct SiteClues {
  std::string variable;  ///< $SYSTEMNAME; empty if unset
  std::string file;      ///< the first line of /etc/FZJ/systemname
  std::string cluster;   ///< $SLURM_CLUSTER_NAME, which Slurm sets in jobs
  std::string host;      ///< gethostname(2)
};

[[nodiscard]] SiteClues clues_of_this_machine(const Environment& environment);

/// Finds the folder share/rollcall/site_config above this program or plugin. `cmake --install` puts the profiles there,
/// and the build folder has it too. Returns nothing if it does not exist or others could have changed it
/// (find_in_installation()). The environment has no influence.
[[nodiscard]] FoundInstalled installed_site_folder();

/// Finds the profile in `folder` that fits best. The strongest clue decides, then the order of the files' names. Only
/// the [site] sections are read. Error (Configuration): a profile cannot be read or parsed.
[[nodiscard]] Result<std::optional<SiteProfile>> recognise_site(const std::optional<std::filesystem::path>& folder,
                                                                const SiteClues& clues);

/// Reads the profile `site.file`, sets it as the site of `settings`, and applies its values and locks. `section` is as
/// in apply_toml_file(). Locks name launch settings. Errors: those of apply_toml_file(); an unknown key or a wrong type
/// in [site]; an unknown setting in `locked`; others than `owners` could have changed the file.
[[nodiscard]] Result<void> apply_site_profile(Settings& settings, SiteProfile site, std::string_view section,
                                              const TrustedOwners& owners);

}  // namespace rollcall::settings
