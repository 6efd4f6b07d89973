#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/sources/image_source.h"
#include "trainer/data/sources/source_indices.h"

namespace rollcall::data {

/// The files of a folder with one sub-folder per class, found by the rules of torchvision's ImageFolder: the sorted
/// sub-folders of `root` are the classes; every file below one whose name ends in one of kPictureEndings (in any case;
/// links are followed) is a sample, sorted by folder and then by name. Files "._NAME" of macOS and all others are left
/// out and counted. (torchvision also accepts .ppm and .pgm, but not .jfif, .gif and .avif.)
struct ImageTree {
  std::string root;
  SampleIndex index;  ///< its stamps are the folders

  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(index.size()); }
  [[nodiscard]] const std::vector<std::string>& class_names() const { return index.about().class_names; }
  /// Returns the file's path, relative to root unless it is absolute.
  [[nodiscard]] std::string_view name(std::size_t file) const { return index.name(static_cast<std::int64_t>(file)); }
  [[nodiscard]] std::string path(std::size_t file) const { return root + "/" + std::string(name(file)); }
  [[nodiscard]] std::uint32_t label(std::size_t file) const {
    return index.entry(static_cast<std::int64_t>(file)).label;
  }
};

/// Lists the folders of several classes at a time, unless `indices` already has the tree. Adds warnings to `indices`
/// about files that are left out, about a single class, and if all pictures are in folders below the class folders.
/// Errors: NoInput: `root` or a folder below cannot be read, or a link that may be a folder has no target; BadData: no
/// class folders, an empty class, or a link to a folder above it.
[[nodiscard]] Result<ImageTree> scan_image_tree(const std::string& root, SourceIndices& indices);

/// A source that reads the files of an ImageTree, of a folder or of a list of labels.
class ImageFolder : public ImageSource {
 public:
  explicit ImageFolder(ImageTree tree) : tree_(std::move(tree)) {}

  [[nodiscard]] std::int64_t size() const override { return tree_.index.size(); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return tree_.class_names(); }
  [[nodiscard]] DataIdentity identity() const override { return tree_.index.identity(); }
  [[nodiscard]] std::int64_t label(std::int64_t index) const override { return tree_.index.entry(index).label; }
  [[nodiscard]] Result<Sample> fetch(std::int64_t index, FetchBuffer& buffer) const override;
  [[nodiscard]] std::string describe(std::int64_t index) const override;

 private:
  ImageTree tree_;
};

/// Reads a whole file into `buffer`, which only grows, and returns the part that it fills. Errors: NoInput: it cannot
/// be opened; InputOutput: reading fails; BadData: it has more than kMostPictureBytes. Thread-safe.
[[nodiscard]] Result<std::span<const std::byte>> read_file(const std::string& path, std::vector<std::byte>& buffer);

}  // namespace rollcall::data
