#pragma once

#include "trainer/data/augment/levels.h"
#include "trainer/data/augment/options.h"
#include "trainer/data/sampling/random.h"

namespace rollcall::data {

/// torchvision's ColorJitter on uint8: the four operations in random order, each with a uniform factor.
class ColourJitter {
 public:
  explicit ColourJitter(const ColourJitterOptions& options) : options_(options) {}

  void apply(const Levels& levels, Random& random) const;

 private:
  ColourJitterOptions options_;
};

}  // namespace rollcall::data
