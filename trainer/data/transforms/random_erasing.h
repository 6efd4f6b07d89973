#pragma once

#include <optional>

#include "trainer/data/pixels.h"
#include "trainer/data/sampling/random.h"
#include "trainer/data/transforms/augment_options.h"
#include "trainer/data/transforms/levels.h"

namespace rollcall::data {

/// Random erasing (Zhong, Zheng, Kang, Li, Yang, AAAI 2020), as torchvision: with the probability, a box with 0.02 to
/// 0.33 of the area and a height/width from 0.3 to 3.3 (uniform in its logarithm) is overwritten after normalisation.
class RandomErasing {
 public:
  explicit RandomErasing(double probability, EraseValue value = EraseValue::Zero)
      : probability_(probability), value_(value) {}

  /// The box to overwrite, or none: by chance, or because ten tries did not fit.
  [[nodiscard]] std::optional<Box> choose(ImageSize size, Random& random) const;
  void apply(const OutputPixels& out, Random& random, AugmentScratch& scratch) const;

 private:
  double probability_;
  EraseValue value_;
};

}  // namespace rollcall::data
