#pragma once

#include <cstdint>
#include <vector>

namespace rollcall::data {

/// Memory that augmentation reuses; it only grows. One for each thread.
struct AugmentScratch {
  std::vector<std::uint8_t> pixels;  ///< a resized picture before colour operations, [height][width][4]
};

}  // namespace rollcall::data
