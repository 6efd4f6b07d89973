#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/install/image_root.h"
#include "runtime/job/slurm_files.h"

namespace rollcall::install {

/// The wanted state of one file. Without `text` and `link_to` the file is removed. A text is written to the target of a
/// link.
struct FileChange {
  std::string path;                    ///< path in the installed system
  std::optional<std::string> text;     ///< the whole content
  std::optional<std::string> link_to;  ///< the target of a symbolic link
  std::string why;                     ///< one clause for --dry-run
  bool of_target = false;              ///< removes the target of a link instead of the link
  bool executable = false;             ///< whether the text is a program
};

/// The changes of an installation, in order. Without changes, everything is installed.
struct Plan {
  std::vector<FileChange> changes;
  std::vector<std::string> folders_to_remove;  ///< removed where they are empty afterwards
  std::vector<std::string> notes;              ///< lines for the user: what to do next, what was not changed
  bool for_all_users = false;                  ///< new folders get mode 0755, whatever the umask
};

/// Reads the target of a symbolic link; nothing where `path` is not one.
using ReadLink = std::function<std::optional<std::string>(const std::string& path)>;

/// The input of a plan for a user's installation.
struct UserInput {
  std::string folder;      ///< ~/.config/rollcall/slurm
  std::string slurm_conf;  ///< the site's slurm.conf
  std::string plugin;      ///< spank_rollcall.so, on a file system that the nodes have
  std::string program;     ///< rollcall, likewise
  /// Files and folders in the folder of the site's slurm.conf, which Slurm's programs look for beside the user's.
  std::vector<std::string> companions;
};
/// The input of a plan for a site's installation. Paths are those of the installed system.
struct SiteInput {
  std::string slurm_conf;                        ///< the site's slurm.conf
  std::string plugstack;                         ///< the site's plugstack.conf
  std::string plugin;                            ///< the plugin's path on the nodes
  std::string profile_path;                      ///< /etc/rollcall/site.toml
  std::optional<std::string> profile;            ///< the profile's text; unset: none is written
  ImageRoot root;                                ///< for the paths in messages
  std::optional<std::string> plugin_text = {};   ///< the bytes to write to `plugin`; unset: it exists
  std::string config_owner = {};                 ///< the value of config_owner= in the line; empty: none
  std::string program = {};                      ///< the path on the nodes of the program that the plugin runs
  std::optional<std::string> program_text = {};  ///< the bytes to write to `program`; unset: it is not written
};

/// Checks that `path` can be written in slurm.conf and plugstack.conf. `name` is its name in the error (Usage). Pure.
[[nodiscard]] Result<void> check_slurm_path(const std::string& name, const std::string& path);

/// These compute the plans of `install --user`, `uninstall --user`, `install --site` and `uninstall --site`. Pure
/// except for `read`, `link` and `names`. Errors: CannotCreate where an existing file is not rollcall's or was edited
/// (nothing must be changed then); Configuration where the site's plugstack.conf already loads rollcall, or
/// PlugStackConfig is not an absolute path; Usage for paths that Slurm's files cannot hold.
[[nodiscard]] Result<Plan> plan_user_install(const UserInput& input, const ReadFile& read, const ReadLink& link,
                                             const ListNames& names);
[[nodiscard]] Result<Plan> plan_user_uninstall(const std::string& folder, const std::vector<std::string>& present,
                                               const ReadFile& read, const ReadLink& link);
[[nodiscard]] Result<Plan> plan_site_install(const SiteInput& input, const ReadFile& read, const ListNames& names);
[[nodiscard]] Result<Plan> plan_site_uninstall(const SiteInput& input, const ReadFile& read);

/// Returns the bytes of a regular file; nothing where it does not exist or cannot be read completely. Plans use
/// PlanReader instead.
[[nodiscard]] std::optional<std::string> read_file(const std::string& path);
/// Returns the target of a symbolic link; nothing where `path` is not one.
[[nodiscard]] std::optional<std::string> read_link(const std::string& path);

/// Applies a plan to the system below `root`. Each file is written under a temporary name and renamed, so that readers
/// see either the old or the new file. An existing file keeps its mode and owner; a new one gets mode 0644, a program
/// 0755. Error: CannotCreate. Earlier changes stay then, and applying the plan again completes it.
[[nodiscard]] Result<void> apply(const Plan& plan, const ImageRoot& root);

}  // namespace rollcall::install
