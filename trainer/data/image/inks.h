#pragma once

#include <cstddef>
#include <cstdint>

namespace rollcall::data {

/// Turns pixels of 255 - C, 255 - M, 255 - Y, 255 - K, as Adobe stores them in CMYK and YCCK JPEG files, into red,
/// green and blue in place, with Pillow's arithmetic.
void multiply_inks(std::uint8_t* pixels, std::size_t row_bytes, int width, int height);

}  // namespace rollcall::data
