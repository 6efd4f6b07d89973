#include "trainer/data/augment/greyscale.h"

namespace rollcall::data {

float mean_grey(const Levels& levels) {
  std::uint64_t sum = 0;
  const std::uint8_t* pixel = levels.pixels;
  for (std::size_t i = 0; i < levels.count(); ++i, pixel += kPixelBytes) {
    sum += grey_of(pixel);
  }
  return static_cast<float>(static_cast<double>(sum) / static_cast<double>(levels.count()));
}

}  // namespace rollcall::data
