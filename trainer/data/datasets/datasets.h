#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/datasets/dataset.h"
#include "trainer/data/datasets/options.h"
#include "trainer/data/sources/image_source.h"
#include "trainer/data/sources/source_indices.h"
#include "trainer/data/transforms/transforms.h"

namespace rollcall::data {

struct Datasets {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> valid;
  std::int64_t num_classes = 0;          ///< outputs that the model needs; fake: 1000, as in the Jülich recipe
  std::vector<std::string> class_names;  ///< of the labels
  DataIdentity identity = {};            ///< of the source of the training images, before it is split
  DataIdentity valid_identity = {};      ///< of that of the validation images
  bool split_by_seed = false;            ///< the seed decided which images train, and which validate
};

/// Opens the data. A folder in which find_parts() finds two has them, with the same classes; anything else that
/// open_source() takes is split 85/10/5 by the seed, like fake data (the last part is held out).
///
/// Errors: Usage: sizes, crop ranges; those of open_source() and find_parts(); BadData: classes differ, too few images
/// to split. Reads folders and tables, not pictures, and of these only what is not among `indices`.
[[nodiscard]] Result<Datasets> make_datasets(const DataOptions& options, SourceIndices& indices);

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

/// The Jülich recipe's fake data: labels of this many kinds, a model with so many outputs.
inline constexpr std::int64_t kFakeClasses = 10;
inline constexpr std::int64_t kFakeOutputs = 1000;

/// Standard normal pixels and a random label, both a function of (seed, sample number) alone: torchvision's FakeData
/// without its detour through 8-bit pictures. Costs no I/O.
class FakeDataset : public Dataset {
 public:
  /// `members`: the sample numbers that this data set has, in its order.
  FakeDataset(std::vector<std::int64_t> members, std::uint64_t seed);

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(members_.size()); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return class_names_; }
  [[nodiscard]] Result<std::int64_t> read(std::int64_t index, std::uint64_t epoch, const OutputPixels& out,
                                          Workspace& workspace) const override;
  [[nodiscard]] std::string describe(std::int64_t index) const override;

 private:
  std::vector<std::int64_t> members_;
  std::vector<std::string> class_names_;
  std::uint64_t seed_;
};

}  // namespace rollcall::data
