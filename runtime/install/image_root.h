#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
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
  /// Lists the installed system's folders by its own paths.
  [[nodiscard]] ListNames lister() const;

 private:
  struct Way {
    std::string end;                  ///< empty: too many links
    std::vector<std::string> places;  ///< folders entered, and the end
  };
  [[nodiscard]] Way walk(const std::string& path, bool follows_last) const;

  std::string folder_;
};

/// Reads files of the installed system, by its own paths, for a plan. A plan takes what it cannot read for absent, and
/// would write over it or overlook what stands there, so one is carried out only where `checked()` says that everything
/// was read. Copies share what was found. Not thread-safe.
class PlanReader {
 public:
  explicit PlanReader(ImageRoot root) : root_(std::move(root)) {}

  /// The whole text of a regular file of at most 1 MiB; nothing where there is none of this name, or on a fault.
  [[nodiscard]] std::optional<std::string> operator()(const std::string& path) const;

  /// Error (NoInput): the first file that is there and was not read, and why.
  [[nodiscard]] Result<void> checked() const { return *fault_; }

 private:
  ImageRoot root_;
  std::shared_ptr<Result<void>> fault_ = std::make_shared<Result<void>>();
};

}  // namespace rollcall::install
