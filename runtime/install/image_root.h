#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/job/slurm_files.h"

namespace rollcall::install {

using job::first_include;
using job::ListNames;
using job::names_in;
using job::plugin_lines;
using job::PluginLine;
using job::plugstack_of;
using job::ReadFile;
using job::slurm_conf_value;

/// Where the system lies that is installed: this machine's own root, or a folder with the image of another one. Paths
/// are those that the installed system will see. A plain value; thread-safe.
class ImageRoot {
 public:
  /// `folder` is empty for this machine itself, else absolute.
  explicit ImageRoot(std::string folder = "") : folder_(std::move(folder)) {}

  [[nodiscard]] bool is_this_machine() const { return folder_.empty(); }
  /// For people: the folder before the path, links as they are.
  [[nodiscard]] std::string shown(const std::string& path) const { return folder_ + path; }

  /// Where `path` (absolute) is on this machine. An image's links are the image's: an absolute one begins at its root,
  /// and `..` stays below it, as openat2(2) has it with RESOLVE_IN_ROOT. What is not there yet is taken by name. Empty,
  /// which names no file, where there are more links than the kernel follows.
  [[nodiscard]] std::string on_this_machine(const std::string& path) const;
  /// The same, with `path` itself not followed where it is a link.
  [[nodiscard]] std::string entry_on_this_machine(const std::string& path) const;
  /// The same on either, links followed: the file itself that `path` is or, where there is none yet, would be.
  [[nodiscard]] std::string target_on_this_machine(const std::string& path) const;
  /// Every folder that is entered on the way to `path` (absolute), links followed, from the root on, and where it ends:
  /// whoever may change one of them decides what `path` is. Places on this machine, each once.
  [[nodiscard]] std::vector<std::string> places_on_the_way(const std::string& path) const;
  /// Reads files of the installed system by its own paths.
  [[nodiscard]] ReadFile reader() const;
  /// Lists its folders, likewise.
  [[nodiscard]] ListNames lister() const;

 private:
  struct Way {
    std::string end;                  ///< empty: too many links
    std::vector<std::string> places;  ///< folders entered, and the end
  };
  [[nodiscard]] Way walk(const std::string& path, bool follows_last) const;

  std::string folder_;
};

}  // namespace rollcall::install
