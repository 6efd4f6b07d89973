#pragma once

#include "trainer/data/augment/levels.h"

namespace rollcall::data {

// torchvision's v2 functionals on uint8 tensors, equal or one level off where float32 rounds differently.

/// adjust_saturation: level * factor + grey * (1 - factor); factor at least 0.
void adjust_saturation(const Levels& levels, double factor);

/// adjust_hue: turns the hue by `turns`, -0.5 ... 0.5, in HSV.
void adjust_hue(const Levels& levels, double turns);

}  // namespace rollcall::data
