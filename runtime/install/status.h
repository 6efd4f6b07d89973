#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/base/trusted_file.h"
#include "runtime/install/image_root.h"

namespace rollcall::install {

/// Returns the folder of a user's installation: ${XDG_CONFIG_HOME:-~/.config}/rollcall/slurm. Error: HOME is unset.
[[nodiscard]] Result<std::string> user_folder(const Environment& environment);

/// Returns the site's slurm.conf: `named` where it is not empty, SLURM_CONF (for a user's installation the file that it
/// includes), or one of the usual paths below `root`. Error (NoInput): there is none.
[[nodiscard]] Result<std::string> site_slurm_conf(const Environment& environment, const std::string& named,
                                                  const ImageRoot& root);

/// The installation that provides `srun --ddp`.
enum class Way {
  None,         ///< none: srun does not have --ddp; `rollcall exec` works
  Site,         ///< the site's: the plugin in srun and on the nodes
  User,         ///< the user's: the plugin in srun and a task prolog
  SiteAndUser,  ///< both; the user's is no longer needed
};

/// The state of the installation.
struct Status {
  Way way = Way::None;
  std::string slurm_conf;             ///< the slurm.conf of srun, or of the srun that started this step; empty: none
  std::string plugstack;              ///< its plugstack.conf
  std::string plugin;                 ///< path of the active plugin; empty: none
  std::string plugin_version;         ///< the version of Slurm that it was built for; empty: unknown
  std::string slurm_version;          ///< the version of srun; empty: unknown
  std::string program;                ///< path of the program that the plugin runs; empty: none
  std::string config;                 ///< the profile in plugstack.conf; empty: none
  std::vector<std::string> problems;  ///< one line each: what is wrong and what to do
};

/// Finds the state of the installation and changes nothing. In a task whose environment rollcall set in a step without
/// the site's plugin, it is the user's installation, although slurmd gives tasks the site's SLURM_CONF. Reads Slurm's
/// configuration files and runs `srun --version`.
[[nodiscard]] Status install_status(const Environment& environment);

/// Returns "none", "site", "user" or "site and user".
[[nodiscard]] std::string way_name(Way way);
[[nodiscard]] std::string status_text(const Status& status);
[[nodiscard]] std::string status_json(const Status& status);

/// Checks whether others than root can change `path` in the system below `root`, or a folder or link on the way to it.
/// Returns a line for each of these.
[[nodiscard]] std::vector<std::string> changeable_by_others(const std::string& path, const ImageRoot& root);

/// Whether a folder with a sticky bit that others may write to counts as safe (Closed), as for the plugin: there users
/// cannot replace each other's files.
enum class Sticky { Open, Closed };

/// Checks that steps would trust `path`: only root, the owner of the image's root folder and `owners` can have changed
/// it (base/trusted_file.h). Missing files are skipped. Error: Configuration.
[[nodiscard]] Result<void> check_trusted(const std::string& path, const ImageRoot& root, const TrustedOwners& owners,
                                         Sticky sticky = Sticky::Open);

/// Checks whether users can read the file `path`. Returns a line for each folder on the way that others may not enter,
/// and for the file. Missing files are skipped. Only the mode is checked; access control lists may allow more.
[[nodiscard]] std::vector<std::string> closed_to_users(const std::string& path, const ImageRoot& root);

}  // namespace rollcall::install
