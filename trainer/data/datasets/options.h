#pragma once

#include <cstdint>
#include <string>

#include "trainer/data/transforms/augment_options.h"

namespace rollcall::data {

/// Which data, and what becomes of their pictures.
struct DataOptions {
  std::string source = "fake";       ///< "fake", or a path; see make_datasets()
  std::int64_t fake_samples = 1000;  ///< source "fake": made-up images before the split
  int image_size = 224;              ///< height and width that the model sees
  int resize_size = 0;               ///< shorter side before validation's centre crop; 0: image_size * 256 / 224
  double crop_scale_min = 0.08;
  double crop_scale_max = 1.0;
  double crop_ratio_min = 3.0 / 4.0;
  double crop_ratio_max = 4.0 / 3.0;
  double flip_probability = 0.5;
  double vertical_flip_probability = 0;
  AugmentOptions augment = {};
  std::uint64_t seed = 0;  ///< of augmentation, of the split and of fake data
};

}  // namespace rollcall::data
