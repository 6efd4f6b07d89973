#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/datasets/dataset.h"
#include "trainer/data/sources/image_source.h"
#include "trainer/data/transforms/transforms.h"

namespace rollcall::data {

/// Some pictures of a source, decoded and transformed at each read.
class ImageDataset : public Dataset {
 public:
  /// The numbers in the source of the pictures that a data set has, in its order; nothing: all of them.
  using Members = std::optional<std::vector<std::int64_t>>;

  /// `seed` is augmentation's.
  ImageDataset(std::shared_ptr<const ImageSource> source, Members members, Transform transform, std::uint64_t seed);

  [[nodiscard]] std::int64_t size() const override {
    return members_ ? static_cast<std::int64_t>(members_->size()) : source_->size();
  }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return source_->class_names(); }
  [[nodiscard]] Result<std::int64_t> read(std::int64_t index, std::uint64_t epoch, const OutputPixels& out,
                                          Workspace& workspace) const override;
  [[nodiscard]] std::string describe(std::int64_t index) const override;

 private:
  [[nodiscard]] std::int64_t number(std::int64_t index) const {
    return members_ ? (*members_)[static_cast<std::size_t>(index)] : index;
  }

  std::shared_ptr<const ImageSource> source_;
  Members members_;
  Transform transform_;
  std::uint64_t seed_;
};

}  // namespace rollcall::data
