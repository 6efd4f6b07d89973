#pragma once

#include <string>

#include "trainer/data/image/decode.h"

// What the formats behind ImageDecoder share.
namespace rollcall::data {

/// The Error for a file that cannot be decoded; the caller adds its name.
[[nodiscard]] Error damaged(std::string reason);
[[nodiscard]] Error no_memory();

/// Success, or the Error for a header's size that ImageDecoder does not take.
[[nodiscard]] Result<void> check_size(long long width, long long height);

/// Bytes that PixelView promises behind its last pixel, and some more.
inline constexpr std::size_t kPixelSlack = 64;

}  // namespace rollcall::data
