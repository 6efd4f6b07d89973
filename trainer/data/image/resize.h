#pragma once

#include <array>
#include <cstdint>

#include "trainer/data/image/resize_kernels.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {

/// An affine map of the resampled value v (0 ... 255) of channel c: v * scale[c] + bias[c], rounded once.
struct ChannelAffine {
  std::array<float, 3> scale{1, 1, 1};
  std::array<float, 3> bias{0, 0, 0};
};

/// How a picture is resampled.
enum class Interpolation { Bilinear, Bicubic };

/// A request to resample a part of a picture and to compute a part of the result.
struct Resize {
  Box source = {};    ///< the part of the picture that is resampled; pixels outside have no influence
  int width = 0;      ///< size of the resampled source
  int height = 0;     //
  Box wanted = {};    ///< the part of width x height that is computed
  bool flip = false;  ///< mirror the wanted part left to right
  bool flip_vertically = false;
  Interpolation interpolation = Interpolation::Bilinear;
};

/// Resamples with an antialiased filter, cut off and renormalised at the source's edges, as Pillow's BILINEAR and
/// BICUBIC and torchvision's `antialias=True`, with float accumulators and no rounding between the passes. Bilinear is
/// a triangle as wide as the scale (at least one source pixel); bicubic is Keys' kernel with a = -0.5, twice as wide,
/// whose results may lie outside 0 ... 255. Differs from torchvision on floats by less than 0.01 of a pixel value 0 ...
/// 255.
///
/// Works vertically, then horizontally, on four rows at a time, with flip, affine map and rounding to the type in the
/// same pass: a strip of rows stays in the first-level cache and the output is written once.
///
/// `out` has the size of the wanted part; bfloat16 is rounded to nearest even. The view must cover needed(request), the
/// source must be inside the picture and the wanted part inside width x height, both non-empty. The bits are the same
/// on every CPU; the fastest of usable_resize_kernels() is used. Thread-safe; scratch memory is kept per thread and
/// only grows.
void resize(const PixelView& view, const Resize& request, const ChannelAffine& affine, const OutputPixels& out);

/// Resizes with the given kernels, for tests and benchmarks.
void resize(const PixelView& view, const Resize& request, const ChannelAffine& affine, const OutputPixels& out,
            const ResizeKernels& kernels);

/// Resizes to uint8 pixels, rounded to nearest even: [wanted.height][wanted.width][4] bytes, of which the fourth is 0.
void resize_to_uint8(const PixelView& view, const Resize& request, std::uint8_t* out);
void resize_to_uint8(const PixelView& view, const Resize& request, std::uint8_t* out, const ResizeKernels& kernels);

/// Returns the part of the picture that influences the wanted part. Cheap.
[[nodiscard]] Box needed(const Resize& request);

/// Returns the equivalent request for a picture decoded at half its size, ceil(width / 2) x ceil(height / 2). The
/// source grows to whole pixels of that picture, by at most one pixel of the full picture at each side.
[[nodiscard]] Resize halved(const Resize& request);

/// Returns the pixels of `picture` that a box of the half-size picture represents; left and top are even.
[[nodiscard]] Box doubled(const Box& box, ImageSize picture);

}  // namespace rollcall::data
