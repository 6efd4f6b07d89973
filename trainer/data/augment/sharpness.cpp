#include "trainer/data/augment/sharpness.h"

#include <algorithm>

namespace rollcall::data {
namespace {

/// What becomes of a level, by the sum of the nine levels around it.
class Sharpened {
 public:
  explicit Sharpened(double factor) : rest_(static_cast<float>(1 - factor)) {}

  [[nodiscard]] std::uint8_t level(int sum_of_nine, int middle) const {
    const int blurred = (2 * (sum_of_nine + 4 * middle) + 13) / 26;  // rounded; 13 is odd, so there are no ties
    return truncated_level(static_cast<float>(middle) + rest_ * static_cast<float>(blurred - middle));
  }

 private:
  float rest_;
};

/// The inner pixels of a row from the sums of three levels above each other.
void sharpen_row(const Sharpened& sharpened, const std::uint16_t* sums, const std::uint8_t* from, std::ptrdiff_t end,
                 std::uint8_t* to) {
  for (std::ptrdiff_t i = kPixelBytes; i < end - kPixelBytes; ++i) {
    to[i] = sharpened.level(sums[i - kPixelBytes] + sums[i] + sums[i + kPixelBytes], from[i]);
  }
}

}  // namespace

void adjust_sharpness(const Levels& levels, double factor, AugmentScratch& scratch) {
  if (levels.width <= 2 || levels.height <= 2) {
    return;
  }
  const Sharpened sharpened(factor);
  const std::ptrdiff_t row_bytes = std::ptrdiff_t{levels.width} * kPixelBytes;
  scratch.copy.assign(levels.bytes().begin(), levels.bytes().end());
  scratch.sums.resize(static_cast<std::size_t>(row_bytes));
  for (int y = 1; y + 1 < levels.height; ++y) {
    const std::uint8_t* from = scratch.copy.data() + y * row_bytes;
    for (std::ptrdiff_t i = 0; i < row_bytes; ++i) {
      const int sum = from[i - row_bytes] + from[i] + from[i + row_bytes];
      scratch.sums[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(sum);
    }
    sharpen_row(sharpened, scratch.sums.data(), from, row_bytes, levels.at(0, y));
  }
}

}  // namespace rollcall::data
