#pragma once

#include "trainer/data/augment/levels.h"
#include "trainer/data/augment/options.h"
#include "trainer/data/augment/scratch.h"
#include "trainer/data/sampling/random.h"

namespace rollcall::data {

/// RandAugment (Cubuk, Zoph, Shlens, Le, CVPR workshops 2020): `operations` times one of the 14, uniformly, at a fixed
/// bin, with a random sign. As torchvision, which leaves out the paper's Invert.
class RandAugment {
 public:
  /// operations at least 0, magnitude 0 ... 30.
  RandAugment(int operations, int magnitude) : operations_(operations), magnitude_(magnitude) {}

  void apply(const Levels& levels, Random& random, AugmentScratch& scratch) const;

 private:
  int operations_;
  int magnitude_;
};

/// TrivialAugmentWide (Müller, Hutter, ICCV 2021): one operation at a random bin, both uniform.
class TrivialAugmentWide {
 public:
  void apply(const Levels& levels, Random& random, AugmentScratch& scratch) const;
};

}  // namespace rollcall::data
