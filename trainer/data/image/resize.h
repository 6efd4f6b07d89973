#pragma once

#include <array>
#include <cstdint>

#include "trainer/data/image/resize_kernels.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {

/// What becomes of a resampled value v (0 ... 255) of channel c: v * scale[c] + bias[c], rounded once.
struct ChannelAffine {
  std::array<float, 3> scale{1, 1, 1};
  std::array<float, 3> bias{0, 0, 0};
};

/// Which part of a picture is resampled to which size, and which part of the result is wanted.
struct Resize {
  Box source = {};    ///< the part of the picture that is resampled; what lies outside has no influence
  int width = 0;      ///< size of the resampled source
  int height = 0;     //
  Box wanted = {};    ///< the part of width x height that is computed
  bool flip = false;  ///< mirror the wanted part left to right
  bool flip_vertically = false;
};

/// Antialiased bilinear resampling: a triangle filter as wide as the scale (never narrower than one source pixel), cut
/// off and renormalised at the source's edges: Pillow's BILINEAR, torchvision's `antialias=True`, with float
/// accumulators and no rounding between the passes. Differs from torchvision on floats by less than 0.01 levels.
///
/// Vertically, then horizontally, four rows at a time, with flip, affine map and rounding to the type in the same pass:
/// a strip of rows stays in the first level cache and the output is written once.
///
/// `out` is as large as the wanted part; bfloat16 is rounded to nearest even. The view must cover needed(request), the
/// source must lie inside the picture, the wanted part inside width x height, both non-empty. Same bits on every CPU:
/// the fastest of usable_resize_kernels() is taken. Thread-safe; scratch memory is kept per thread and only grows.
void resize(const PixelView& view, const Resize& request, const ChannelAffine& affine, const OutputPixels& out);

/// The same with given kernels, for tests and benchmarks.
void resize(const PixelView& view, const Resize& request, const ChannelAffine& affine, const OutputPixels& out,
            const ResizeKernels& kernels);

/// The same to levels, rounded to nearest even: [wanted.height][wanted.width][4] bytes, the fourth one 0.
void resize_to_levels(const PixelView& view, const Resize& request, std::uint8_t* out);
void resize_to_levels(const PixelView& view, const Resize& request, std::uint8_t* out, const ResizeKernels& kernels);

/// The part of the picture that has influence on the wanted part. Cheap.
[[nodiscard]] Box needed(const Resize& request);

/// The same resize of a picture that was decoded at half its size, ceil(width / 2) x ceil(height / 2): the source grows
/// to whole pixels of that picture, by at most one of the full picture at each side.
[[nodiscard]] Resize halved(const Resize& request);

/// The pixels of a `picture` that a box of it at half its size stands for; left and top are even.
[[nodiscard]] Box doubled(const Box& box, ImageSize picture);

}  // namespace rollcall::data
