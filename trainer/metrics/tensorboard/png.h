#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/result.h"

namespace rollcall::metrics::tensorboard {

/// A PNG file. `rgb`: 8 bits a channel, [height][width][3], without gaps. Errors (Internal): libpng refuses, as for a
/// picture without pixels or one whose lines are too long.
[[nodiscard]] Result<std::string> encode_png(std::span<const std::uint8_t> rgb, int width, int height);

}  // namespace rollcall::metrics::tensorboard
