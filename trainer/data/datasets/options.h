#pragma once

#include <cstdint>
#include <string>

#include "trainer/data/transforms/augment_options.h"
#include "trainer/data/transforms/transforms.h"

namespace rollcall::data {

/// A part of the data. All: without a split.
enum class Part { Valid, Train, Test, All };

/// The source of the data and the transforms of its pictures.
struct DataOptions {
  std::string source = "fake";       ///< "fake" or a path; see make_datasets()
  std::string class_names = {};      ///< file with the class names of a list of labels; empty: its labels, sorted
  bool several_labels = false;       ///< the images of a list of labels may have several classes, or none
  std::int64_t fake_samples = 1000;  ///< number of synthetic images before the split, for source "fake"
  int image_size = 224;              ///< height and width of the model's input
  int valid_image_size = 0;          ///< the same for validation; 0: image_size
  int resize_size = 0;               ///< shorter side before its centre crop; 0: its image size * 256 / 224
  double crop_scale_min = 0.08;
  double crop_scale_max = 1.0;
  double crop_ratio_min = 3.0 / 4.0;
  double crop_ratio_max = 4.0 / 3.0;
  double flip_probability = 0.5;
  double vertical_flip_probability = 0;
  Interpolation interpolation = Interpolation::Bilinear;  ///< of training and validation
  Normalisation normalisation = {};
  AugmentOptions augment = {};
  std::uint64_t seed = 0;        ///< seed of augmentation, split and synthetic data
  Part evaluated = Part::Valid;  ///< which images become the validation set
};

/// Returns the height and width of validation images.
[[nodiscard]] constexpr int valid_image_size(const DataOptions& options) {
  return options.valid_image_size > 0 ? options.valid_image_size : options.image_size;
}

}  // namespace rollcall::data
