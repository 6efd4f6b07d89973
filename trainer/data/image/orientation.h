#pragma once

#include "trainer/data/image/image.h"
#include "trainer/data/image/kept_memory.h"

namespace rollcall::data {

/// How a stored picture is turned to be upright: pixel (x, y) of the upright one lies at (x, y) of the stored one, or
/// at (y, x) if transposed; after that counted from the other side if mirrored.
struct Orientation {
  bool transposed = false;
  bool mirrored_x = false;  ///< the stored x counts from the right
  bool mirrored_y = false;  ///< the stored y counts from the bottom

  /// From EXIF's number 1 ... 8: 1 as stored, 2 mirrored, 3 by 180 degrees, 4 mirrored top to bottom, 6 by 90 degrees
  /// clockwise, 8 by 90 degrees counterclockwise, 5 and 7 mirrored and then 8 and 6.
  [[nodiscard]] static Orientation from_exif(int number);

  [[nodiscard]] bool is_upright() const { return !transposed && !mirrored_x && !mirrored_y; }

  /// The upright picture's size; the same function leads back.
  [[nodiscard]] ImageSize turned(ImageSize size) const {
    return transposed ? ImageSize{size.height, size.width} : size;
  }

  /// Where a box of the upright picture lies in the stored one, which has the size `stored`.
  [[nodiscard]] Box stored_box(const Box& upright, ImageSize stored) const;
};

/// Copies the pixels of `upright` out of a view of the stored picture that covers its stored_box(). Null pixels in the
/// result where there is no memory left. The result lies in `memory`.
[[nodiscard]] PixelView turn(const PixelView& view, ImageSize stored, Orientation orientation, const Box& upright,
                             KeptMemory& memory);

}  // namespace rollcall::data
