#pragma once

#include "trainer/data/augment/operations.h"
#include "trainer/data/augment/options.h"
#include "trainer/data/image/image.h"

namespace rollcall::data {

inline constexpr int kMagnitudeBins = 31;

/// How strong an operation is at bin 0 ... 30 of a policy (not None) for pictures of this size: torchvision's tables,
/// with its float32 steps. 0 for operations without a magnitude.
[[nodiscard]] double magnitude_of(AugmentPolicy policy, Operation operation, int bin, ImageSize size);

/// Whether the magnitude's sign is drawn.
[[nodiscard]] bool is_signed(Operation operation);

}  // namespace rollcall::data
