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
  std::int64_t num_classes = 0;          ///< outputs of the model; 1000 for fake data, as in the Jülich recipe
  std::vector<std::string> class_names;  ///< the name of each class
  DataIdentity identity = {};            ///< identifies the source of the training images, before the split
  DataIdentity valid_identity = {};      ///< identifies the source of the validation images
  bool split_by_seed = false;  ///< whether the seed decided which images are for training and which for validation
};

/// Opens the data. If find_parts() finds a training and a validation set in the folder, both are used and must have the
/// same classes; a list of labels for validation has those of the training set. A list of labels with a column `split`
/// holds both. With DataOptions::several_labels only lists of labels are read. Any other source that open_source()
/// accepts, and fake data, is split 85/10/5 by the seed; the last part is held out. DataOptions::evaluated may name
/// another part for the validation set.
///
/// Errors: Usage: sizes, crop ranges; those of open_source() and find_parts(); BadData: the classes differ, or there
/// are too few images to split. Reads folders and tables but no pictures, and only what is not in `indices`.
[[nodiscard]] Result<Datasets> make_datasets(const DataOptions& options, SourceIndices& indices);

/// Returns the indices of each label's samples, in ascending order. Not for images with several labels.
[[nodiscard]] std::vector<std::vector<std::int64_t>> samples_by_label(const Dataset& dataset);

/// Returns all pictures of `source` with the transform of validation images. Errors (Usage): sizes.
[[nodiscard]] Result<std::shared_ptr<const Dataset>> make_unlabelled(const DataOptions& options,
                                                                     std::shared_ptr<const ImageSource> source);

/// A dataset of some pictures of a source, decoded and transformed at each read.
class ImageDataset : public Dataset {
 public:
  /// The indices in the source of the dataset's pictures, in the order of the dataset; unset: all pictures.
  using Members = std::optional<std::vector<std::int64_t>>;

  /// `seed` is the seed of the augmentation. `label_sets`: null if each image has one class.
  ImageDataset(std::shared_ptr<const ImageSource> source, Members members, Transform transform, std::uint64_t seed,
               std::shared_ptr<const LabelSets> label_sets = nullptr);

  [[nodiscard]] std::int64_t size() const override {
    return members_ ? static_cast<std::int64_t>(members_->size()) : source_->size();
  }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return source_->class_names(); }
  [[nodiscard]] const LabelSets* label_sets() const override { return label_sets_.get(); }
  [[nodiscard]] std::int64_t label(std::int64_t index) const override { return source_->label(number(index)); }
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
  std::shared_ptr<const LabelSets> label_sets_;
};

/// The numbers of labels and of model outputs for fake data in the Jülich recipe.
inline constexpr std::int64_t kFakeClasses = 10;
inline constexpr std::int64_t kFakeOutputs = 1000;

/// Synthetic data: standard normal pixels and a random label, both a function of (seed, sample number). It is
/// torchvision's FakeData without the detour through 8-bit images, and needs no I/O.
class FakeDataset : public Dataset {
 public:
  /// `members`: the sample numbers of this dataset, in its order. uint8 pixels are those whose `normalisation` is
  /// nearest to the draws.
  FakeDataset(std::vector<std::int64_t> members, std::uint64_t seed, const Normalisation& normalisation = {});

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(members_.size()); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return class_names_; }
  [[nodiscard]] std::int64_t label(std::int64_t index) const override;
  [[nodiscard]] Result<std::int64_t> read(std::int64_t index, std::uint64_t epoch, const OutputPixels& out,
                                          Workspace& workspace) const override;
  [[nodiscard]] std::string describe(std::int64_t index) const override;

 private:
  std::vector<std::int64_t> members_;
  std::vector<std::string> class_names_;
  std::uint64_t seed_;
  Normalisation normalisation_;
};

}  // namespace rollcall::data
