#pragma once

#include "trainer/data/transforms/levels.h"

namespace rollcall::data {

// torchvision's affine() and rotate() with nearest neighbours; what comes from outside is black. Where a source
// position lies halfway between two pixels, float32 decides there and here: single pixels may differ.

/// Shear around the top left corner: each row moves right by x times its distance from the top, each column down by y
/// times its distance from the left.
void shear(const Levels& levels, double x, double y, AugmentScratch& scratch);

/// Moves the picture right and down by whole pixels.
void translate(const Levels& levels, int x, int y, AugmentScratch& scratch);

/// Rotates counter-clockwise around the centre.
void rotate(const Levels& levels, double degrees, AugmentScratch& scratch);

}  // namespace rollcall::data
