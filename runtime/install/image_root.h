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

/// The root of the installed system: this machine's root, or a folder with the image of another machine. Paths are
/// those of the installed system. A plain value; thread-safe.
class ImageRoot {
 public:
  /// `folder` is empty for this machine, else absolute.
  explicit ImageRoot(std::string folder = "") : folder_(std::move(folder)) {}

  [[nodiscard]] bool is_this_machine() const { return folder_.empty(); }
  /// Returns the path for messages: the image's folder and `path`, without resolving links.
  [[nodiscard]] std::string shown(const std::string& path) const { return folder_ + path; }

  /// Returns the path on this machine of `path` (absolute). Links of an image are resolved in it: an absolute link
  /// begins at its root, and `..` does not leave it, like RESOLVE_IN_ROOT of openat2(2). Missing entries are appended
  /// by name. Empty, which names no file, where there are more links than the kernel follows.
  [[nodiscard]] std::string on_this_machine(const std::string& path) const;
  /// Returns the path on this machine of `path`, but does not follow `path` itself where it is a link.
  [[nodiscard]] std::string entry_on_this_machine(const std::string& path) const;
  /// Returns the path of the file itself, which may not exist yet: links are resolved for this machine too.
  [[nodiscard]] std::string target_on_this_machine(const std::string& path) const;
  /// Returns the paths on this machine of all folders on the way to `path` (absolute), of links' targets, and of `path`
  /// itself, each once. Whoever may change one of them can replace `path`.
  [[nodiscard]] std::vector<std::string> paths_on_the_way(const std::string& path) const;
  /// Returns a function that lists folders of the installed system.
  [[nodiscard]] ListNames lister() const;

 private:
  struct Way {
    std::string end;                  ///< empty: too many links
    std::vector<std::string> places;  ///< the visited folders and the end
  };
  [[nodiscard]] Way walk(const std::string& path, bool follows_last) const;

  std::string folder_;
};

/// Reads files of the installed system for a plan. A plan treats a file that it cannot read as absent, and so could
/// overwrite it. Therefore a plan is applied only where checked() has no error. Copies share the error. Not
/// thread-safe.
class PlanReader {
 public:
  explicit PlanReader(ImageRoot root) : root_(std::move(root)) {}

  /// Returns the text of a regular file of at most 1 MiB; nothing where it does not exist or cannot be read.
  [[nodiscard]] std::optional<std::string> operator()(const std::string& path) const;

  /// Error (NoInput): the first existing file that could not be read, with the reason.
  [[nodiscard]] Result<void> checked() const { return *fault_; }

 private:
  ImageRoot root_;
  std::shared_ptr<Result<void>> fault_ = std::make_shared<Result<void>>();
};

}  // namespace rollcall::install
