#pragma once

#include "trainer/data/sampling/random.h"
#include "trainer/data/transforms/uint8_image.h"

namespace rollcall::data {

// Pillow's operations, with equal levels.

/// Image.convert("L"), in all three channels.
void to_greyscale(const UInt8Image& image);

/// ImageFilter.GaussianBlur(radius): three box blurs in each direction (Gwosdek, Grewenig, Bruhn, Weickert, SSVM 2011),
/// each rounded to levels. Pixels beyond an edge are those of the edge. radius: 0 ... 100 pixels.
void gaussian_blur(const UInt8Image& image, double radius, AugmentScratch& scratch);

/// 3-Augment (DeiT III: Touvron, Cord, Jégou, ECCV 2022) without its colour jitter: greyscale, solarisation from level
/// 128 on, or a blur with a radius of 0.1 to 2 pixels, each with probability 1/3.
void three_augment(const UInt8Image& image, Random& random, AugmentScratch& scratch);

}  // namespace rollcall::data
