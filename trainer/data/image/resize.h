#pragma once

#include <array>
#include "trainer/data/image/image.h"
#include "trainer/data/image/output_pixels.h"

namespace rollcall::data {

/// What becomes of a resampled value v (0 ... 255) of channel c: v * scale[c] + bias[c].
struct ChannelAffine {
  std::array<float, 3> scale{1, 1, 1};
  std::array<float, 3> bias{0, 0, 0};
};

/// Which part of a picture is resampled to which size, and which part of the result is wanted.
struct Resize {
  Box source = {};    ///< the part of the picture that is resampled; what lies outside has no influence
  int width = 0;      ///< size of the resampled source
  int height = 0;     //
  Box window = {};    ///< the part of width x height that is computed
  bool flip = false;  ///< mirror the window left to right
};

/// Antialiased bilinear resampling: a triangle filter as wide as the scale (never narrower than one source pixel), cut
/// off and renormalised at the source's edges: Pillow's BILINEAR, torchvision's `antialias=True`, with float
/// accumulators and no rounding between the passes. Differs from torchvision on floats by less than 0.01 levels.
///
/// `out` is as large as the window. The view must cover needed(request), the source must lie inside the picture, the
/// window inside width x height, both non-empty. Same bits on every x86-64 CPU. Thread-safe; scratch memory is kept per
/// thread.
void resize(const PixelView& view, const Resize& request, const ChannelAffine& affine, const OutputPixels& out);

/// The part of the picture that has influence on the window.
[[nodiscard]] Box needed(const Resize& request);

}  // namespace rollcall::data
