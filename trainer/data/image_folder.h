#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/data/dataset.h"
#include "trainer/data/transforms.h"

namespace rollcall::data {

/// The files of a class-per-folder tree, found by torchvision's ImageFolder rules: the sub-folders of `root`, sorted,
/// are the classes; every .jpg, .jpeg or .png file below one (in any case; links followed), sorted by folder and then
/// by name, is a sample; other files are ignored. (torchvision takes further formats.)
struct ImageTree {
  struct File {
    std::string path;  ///< relative to root
    std::int64_t label = 0;
  };

  std::string root;
  std::vector<std::string> class_names;
  std::vector<File> files;
};

/// Errors: NoInput where `root` or a folder below cannot be read; BadData without class folders and for an empty class.
[[nodiscard]] Result<ImageTree> scan_image_tree(const std::string& root);

/// Some files of a tree, decoded and transformed at each read.
class ImageFolder : public Dataset {
 public:
  /// `members`: the numbers in tree->files that this data set has, in its order. `seed` is augmentation's.
  ImageFolder(std::shared_ptr<const ImageTree> tree, std::vector<std::int64_t> members, Transform transform,
              std::uint64_t seed);

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(members_.size()); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return tree_->class_names; }
  [[nodiscard]] Result<std::int64_t> read(std::int64_t index, std::uint64_t epoch,
                                          std::span<float> pixels) const override;
  [[nodiscard]] std::string describe(std::int64_t index) const override;

 private:
  [[nodiscard]] std::size_t file_number(std::int64_t index) const {
    return static_cast<std::size_t>(members_[static_cast<std::size_t>(index)]);
  }

  std::shared_ptr<const ImageTree> tree_;
  std::vector<std::int64_t> members_;
  Transform transform_;
  std::uint64_t seed_;
};

}  // namespace rollcall::data
