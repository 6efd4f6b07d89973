#pragma once

#include <array>
#include <span>
#include <variant>

#include "trainer/data/image/image.h"
#include "trainer/data/image/resize.h"
#include "trainer/data/random.h"

namespace rollcall::data {

/// (level / 255 - mean) / standard deviation per channel; ImageNet's values by default.
struct Normalisation {
  std::array<double, 3> mean{0.485, 0.456, 0.406};
  std::array<double, 3> deviation{0.229, 0.224, 0.225};

  /// The same as one multiplication and one addition on levels 0 ... 255.
  [[nodiscard]] ChannelAffine affine() const;
};

/// torchvision's RandomResizedCrop: ten tries at a box with a random part of the area (uniform) and a random
/// width/height (uniform in its logarithm), placed uniformly; else the largest centred box within the range of ratios.
struct RandomCrop {
  double scale_min = 0.08;
  double scale_max = 1.0;
  double ratio_min = 3.0 / 4.0;
  double ratio_max = 4.0 / 3.0;

  [[nodiscard]] Box choose(int width, int height, Random& random) const;
};

/// RandomResizedCrop to image_size x image_size, horizontal flip, normalisation.
struct TrainTransform {
  int image_size = 224;
  RandomCrop crop = {};
  double flip_probability = 0.5;
  Normalisation normalisation = {};

  /// `pixels`: float [image_size][image_size][3], channels-last. Thread-safe; all chance comes from `random`.
  void operator()(const Image& image, Random& random, std::span<float> pixels) const;
};

/// Resize(resize_size) of the shorter side, CenterCrop(image_size), normalisation, with torchvision's rounding.
struct EvalTransform {
  int image_size = 224;
  int resize_size = 256;  ///< at least image_size
  Normalisation normalisation = {};

  /// `pixels` as for TrainTransform; nothing random. Thread-safe.
  void operator()(const Image& image, std::span<float> pixels) const;
};

/// What an image folder does with its pictures.
using Transform = std::variant<TrainTransform, EvalTransform>;

}  // namespace rollcall::data
