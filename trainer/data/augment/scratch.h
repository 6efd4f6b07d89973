#pragma once

#include <cstdint>
#include <vector>

namespace rollcall::data {

/// Memory that augmentation reuses; it only grows. One for each thread.
struct AugmentScratch {
  std::vector<std::uint8_t> pixels;  ///< a resized picture between its operations, [height][width][4] and 16 bytes
  std::vector<std::uint8_t> copy;    ///< the same before an operation that cannot work in place
  std::vector<std::uint16_t> sums;   ///< a row of sums of levels
  std::vector<float> noise;          ///< a row of what random erasing writes
};

}  // namespace rollcall::data
