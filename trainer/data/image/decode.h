#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "runtime/base/result.h"
#include "trainer/data/image/image.h"

namespace rollcall::data {

/// Most pixels that a picture may have: Pillow's limit against decompression bombs.
inline constexpr long long kMaxPixels = 178'956'970;

/// Decodes a JPEG or PNG file to 8-bit RGB. The format is told by the first bytes, whatever the file's name says.
///
/// Gives the pixels of Pillow's `Image.open(...).convert("RGB")`:
///  - JPEG (libjpeg-turbo, accurate DCT, fancy upsampling): greyscale is repeated three times; CMYK and YCCK are taken
///  as
///    Adobe writes them, inverted, and multiplied out. Orientation tags are ignored.
///  - PNG: palette and greyscale expanded, alpha dropped (not blended), 16 bits rounded to 8. Unlike Pillow, a gAMA
///  chunk
///    that is not sRGB's is honoured.
/// Whatever the libraries warn of in a JPEG counts as damage: a truncated file "succeeds" with a warning otherwise.
///
/// `name` is used in messages only. Errors: BadData: of neither format, damaged, truncated, more than kMaxPixels.
/// Thread-safe.
[[nodiscard]] Result<Image> decode(std::span<const std::byte> file, std::string_view name);

}  // namespace rollcall::data
