#pragma once

#include "trainer/data/augment/levels.h"
#include "trainer/data/augment/scratch.h"

namespace rollcall::data {

/// torchvision's adjust_sharpness on uint8: level + (1 - factor) * (blurred - level), blurred with the 3 x 3 kernel of
/// ones and a 5 in its middle; the outermost pixels stay. factor at least 0.
void adjust_sharpness(const Levels& levels, double factor, AugmentScratch& scratch);

}  // namespace rollcall::data
