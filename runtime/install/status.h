#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/believed_file.h"
#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/install/image_root.h"

namespace rollcall::install {

/// Where a user's installation stands: ${XDG_CONFIG_HOME:-~/.config}/rollcall/slurm. Error: HOME is unset.
[[nodiscard]] Result<std::string> user_folder(const Environment& environment);

/// The site's slurm.conf: `named` where it is not empty, SLURM_CONF (through a user's installation to what it
/// includes), or the usual places below `root`. Error (NoInput): none is there.
[[nodiscard]] Result<std::string> site_slurm_conf(const Environment& environment, const std::string& named,
                                                  const ImageRoot& root);

/// Which installation serves `srun --ddp` here.
enum class Way {
  None,         ///< none: `srun --ddp` is no option; rollcall exec works
  Site,         ///< the administrator's: both halves of the plugin
  User,         ///< the user's: srun half and task prolog
  SiteAndUser,  ///< both; the user's is no longer needed
};

struct Status {
  Way way = Way::None;
  std::string slurm_conf;             ///< in force where this process starts steps, or where its own was; empty: none
  std::string plugstack;              ///< its plugstack.conf
  std::string plugin;                 ///< path of the plugin in force; empty: none
  std::string plugin_version;         ///< the Slurm that it was built for; empty: unknown
  std::string slurm_version;          ///< srun's; empty: unknown
  std::string program;                ///< path of the program that the plugin runs; empty: none
  std::string config;                 ///< profile that plugstack.conf names; empty: none
  std::vector<std::string> problems;  ///< one line each: what is wrong and what to do
};

/// Finds out; changes nothing. In a task whose environment a rollcall set, and of a step that no site's plugin can have
/// done it for, it is the user's installation, though slurmd gives tasks the site's SLURM_CONF. Reads Slurm's
/// configuration files and runs `srun --version`.
[[nodiscard]] Status install_status(const Environment& environment);

/// "none", "site", "user", "site and user".
[[nodiscard]] std::string way_name(Way way);
[[nodiscard]] std::string status_text(const Status& status);
[[nodiscard]] std::string status_json(const Status& status);

/// Who beside root can change `path`, as the system below `root` sees it, or a folder on the way there, those of links
/// and of what they point to among them: a line for each; none where nobody can.
[[nodiscard]] std::vector<std::string> changeable_by_others(const std::string& path, const ImageRoot& root);

/// What a folder with a sticky bit is to who judges it: Closed, as the plugin takes it, since nobody replaces there
/// what is another's.
enum class Sticky { Open, Closed };

/// Error (Configuration): steps would refuse `path`, since others than root, the owner of the image's root folder and
/// `owners` can have changed it (base/believed_file.h). What is not there yet is passed over.
[[nodiscard]] Result<void> check_believed(const std::string& path, const ImageRoot& root, const Believed& owners,
                                          Sticky sticky = Sticky::Open);

/// What keeps users from reading the file `path`, likewise: a folder on the way that others may not enter, or the file
/// itself: a line for each; none where all can. What is not there yet is passed over. Goes by the mode alone: access
/// lists may allow more.
[[nodiscard]] std::vector<std::string> closed_to_users(const std::string& path, const ImageRoot& root);

}  // namespace rollcall::install
