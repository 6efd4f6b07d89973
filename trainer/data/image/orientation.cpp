#include "trainer/data/image/orientation.h"

#include <array>
#include <cstring>

#include "trainer/data/image/formats.h"

namespace rollcall::data {

Orientation Orientation::from_exif(int number) {
  constexpr std::array<Orientation, 9> kTurns{{{},
                                               {false, false, false},
                                               {false, true, false},
                                               {false, true, true},
                                               {false, false, true},
                                               {true, false, false},
                                               {true, false, true},
                                               {true, true, true},
                                               {true, true, false}}};
  return number >= 1 && number <= 8 ? kTurns[static_cast<std::size_t>(number)] : Orientation{};
}

Box Orientation::stored_box(const Box& upright, ImageSize stored) const {
  Box box = upright;
  if (transposed) {
    box = {upright.top, upright.left, upright.height, upright.width};
  }
  if (mirrored_x) {
    box.left = stored.width - box.right();
  }
  if (mirrored_y) {
    box.top = stored.height - box.bottom();
  }
  return box;
}

PixelView turn(const PixelView& view, ImageSize stored, Orientation orientation, const Box& upright,
               KeptMemory& memory) {
  const std::size_t row_bytes = static_cast<std::size_t>(upright.width) * kPixelBytes;
  std::uint8_t* pixels = memory.at_least(row_bytes * static_cast<std::size_t>(upright.height) + kPixelSlack);
  if (pixels == nullptr) {
    return {};
  }
  const Box box = orientation.stored_box(upright, stored);
  const std::ptrdiff_t step_x = orientation.mirrored_x ? -kPixelBytes : kPixelBytes;
  const std::ptrdiff_t step_y = orientation.mirrored_y ? -view.row_bytes : view.row_bytes;
  const std::uint8_t* corner =
      view.at(orientation.mirrored_x ? box.right() - 1 : box.left, orientation.mirrored_y ? box.bottom() - 1 : box.top);
  const std::ptrdiff_t along_row = orientation.transposed ? step_y : step_x;
  const std::ptrdiff_t to_next_row = orientation.transposed ? step_x : step_y;
  std::uint8_t* out = pixels;
  for (int y = 0; y < upright.height; ++y) {
    for (int x = 0; x < upright.width; ++x, out += kPixelBytes) {
      std::memcpy(out, corner + y * to_next_row + x * along_row, kPixelBytes);
    }
  }
  return {pixels, static_cast<std::ptrdiff_t>(row_bytes), upright};
}

}  // namespace rollcall::data
