#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/install/image_root.h"
#include "runtime/job/slurm_files.h"

namespace rollcall::install {

/// One file as an installation wants it. An absent `text` and `link_to` mean: it shall not be there. A text goes into
/// the file that a link points to.
struct FileChange {
  std::string path;                    ///< as the installed system sees it
  std::optional<std::string> text;     ///< the whole content
  std::optional<std::string> link_to;  ///< a symbolic link to this
  std::string why;                     ///< one clause for --dry-run
  bool of_target = false;              ///< what is removed is the file that `path` points to; a link stays
  bool executable = false;             ///< the text is a program's
};

/// What to do, in order, and what to tell. Empty changes: all is as it should be.
struct Plan {
  std::vector<FileChange> changes;
  std::vector<std::string> folders_to_remove;  ///< where they are empty afterwards
  std::vector<std::string> notes;              ///< lines for the user: what to do next, what was left alone
  bool for_all_users = false;                  ///< folders that are made get 0755, whatever the umask
};

/// Reads the target of a symbolic link; nothing where `path` is none.
using ReadLink = std::function<std::optional<std::string>(const std::string& path)>;

/// What a plan depends on, read before.
struct UserInput {
  std::string folder;      ///< ~/.config/rollcall/slurm
  std::string slurm_conf;  ///< the site's
  std::string plugin;      ///< spank_rollcall.so, on a file system that the nodes see
  std::string program;     ///< rollcall, likewise
  /// Names of files and folders beside the site's slurm.conf, which Slurm's programs look for beside the user's.
  std::vector<std::string> companions;
};
struct SiteInput {
  std::string slurm_conf;                        ///< the site's, to which plugstack belongs
  std::string plugstack;                         ///< the site's plugstack.conf
  std::string plugin;                            ///< as the nodes see it
  std::string profile_path;                      ///< /etc/rollcall/site.toml
  std::optional<std::string> profile;            ///< the text that shall be there; nothing: none is to be written
  ImageRoot root;                                ///< for messages: every path is as the installed system sees it
  std::optional<std::string> plugin_text = {};   ///< what shall be at `plugin`; nothing: it is there already
  std::string config_owner = {};                 ///< of the line; empty: none
  std::string program = {};                      ///< what the plugin runs, as the nodes see it
  std::optional<std::string> program_text = {};  ///< what shall be there; nothing: it is, or is not rollcall's to write
};

/// Whether a line of slurm.conf or plugstack.conf can hold `path`, which is called `name` in the error (Usage). Pure.
[[nodiscard]] Result<void> check_slurm_path(const std::string& name, const std::string& path);

/// `install --user` and `uninstall --user`, `install --site` and `uninstall --site`. Pure but for the reading through
/// `read`, `link` and `names`. Errors: CannotCreate where a file there is not rollcall's or was edited since (nothing
/// of the plan would be done then); Configuration where the site's plugstack.conf loads rollcall already, or
/// PlugStackConfig is no absolute path; Usage for paths that Slurm's files cannot hold.
[[nodiscard]] Result<Plan> plan_user_install(const UserInput& input, const ReadFile& read, const ReadLink& link,
                                             const ListNames& names);
[[nodiscard]] Result<Plan> plan_user_uninstall(const std::string& folder, const std::vector<std::string>& present,
                                               const ReadFile& read, const ReadLink& link);
[[nodiscard]] Result<Plan> plan_site_install(const SiteInput& input, const ReadFile& read, const ListNames& names);
[[nodiscard]] Result<Plan> plan_site_uninstall(const SiteInput& input, const ReadFile& read);

/// A regular file's bytes; nothing where it is absent, no file, or not read whole. A plan reads by PlanReader.
[[nodiscard]] std::optional<std::string> read_file(const std::string& path);
[[nodiscard]] std::optional<std::string> read_link(const std::string& path);

/// Carries out a plan on the system below `root`: each file is written beside its place and renamed into it, so that a
/// reader sees the old or the new one; an existing file keeps its mode and owner, a new one gets 0644, a program 0755.
/// Error: CannotCreate; what was done before stays, and doing it again finishes it.
[[nodiscard]] Result<void> apply(const Plan& plan, const ImageRoot& root);

}  // namespace rollcall::install
