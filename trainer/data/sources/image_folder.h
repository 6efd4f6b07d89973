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

/// The files of a class-per-folder tree, found by torchvision's ImageFolder rules: the sub-folders of `root`, sorted,
/// are the classes; every file below one with one of kPictureEndings (in any case; links followed), sorted by folder
/// and then by name, is a sample, but for the "._NAME" of macOS; other files are left out, and counted. (torchvision
/// takes .ppm and .pgm as well, and no .jfif, .gif and .avif.)
struct ImageTree {
  std::string root;
  SampleIndex index;  ///< its witnesses are all folders

  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(index.size()); }
  [[nodiscard]] const std::vector<std::string>& class_names() const { return index.about().class_names; }
  /// Relative to root.
  [[nodiscard]] std::string_view name(std::size_t file) const { return index.name(static_cast<std::int64_t>(file)); }
  [[nodiscard]] std::string path(std::size_t file) const { return root + "/" + std::string(name(file)); }
  [[nodiscard]] std::uint32_t label(std::size_t file) const {
    return index.entry(static_cast<std::int64_t>(file)).label;
  }
};

/// Lists the folders of several classes at a time, unless `indices` have the tree; warns there of files that are left
/// out, of a single class and of pictures that all lie deeper than in class folders.
/// Errors: NoInput where `root` or a folder below cannot be read, or a link to what may be one leads nowhere; BadData
/// without class folders, for an empty class, and for a link that leads back to a folder above it.
[[nodiscard]] Result<ImageTree> scan_image_tree(const std::string& root, SourceIndices& indices);

/// The files of a tree as a source.
class ImageFolder : public ImageSource {
 public:
  explicit ImageFolder(ImageTree tree) : tree_(std::move(tree)) {}

  [[nodiscard]] std::int64_t size() const override { return tree_.index.size(); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return tree_.class_names(); }
  [[nodiscard]] DataIdentity identity() const override { return tree_.index.identity(); }
  [[nodiscard]] Result<Sample> fetch(std::int64_t index, FetchBuffer& buffer) const override;
  [[nodiscard]] std::string describe(std::int64_t index) const override;

 private:
  ImageTree tree_;
};

/// Reads the whole content of a file into `buffer`, which only grows, and gives the part that it fills.
/// Errors: NoInput where it cannot be opened, InputOutput where reading fails half-way, BadData where it has more than
/// kMostPictureBytes. Thread-safe.
[[nodiscard]] Result<std::span<const std::byte>> read_file(const std::string& path, std::vector<std::byte>& buffer);

}  // namespace rollcall::data
