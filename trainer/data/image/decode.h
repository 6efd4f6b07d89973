#pragma once

#include <memory>

#include "runtime/base/result.h"
#include "trainer/data/image/encoded_image.h"
#include "trainer/data/image/image.h"

namespace rollcall::data {

/// Most pixels that a picture may have: Pillow's limit against decompression bombs.
inline constexpr long long kMaxPixels = 178'956'970;

/// Decodes the wanted part of JPEG and PNG files to 8-bit RGB, one file after another, in memory that it keeps. The
/// format is told by the first bytes, whatever the file's name says.
///
/// Gives the pixels that decoding all and cropping would give, bit for bit, which are those of Pillow's
/// `Image.open(...).convert("RGB")`:
///  - JPEG (libjpeg-turbo, accurate DCT, fancy upsampling): greyscale is repeated three times; CMYK and YCCK are taken
///    as Adobe writes them, inverted, and multiplied out. Orientation tags are ignored, as torchvision's ImageFolder
///    does.
///  - PNG: palette and greyscale expanded, alpha dropped (not blended), 16 bits rounded to 8. Unlike Pillow, a gAMA
///    chunk that is not sRGB's is honoured.
/// Whatever the libraries warn of in a JPEG counts as damage: a truncated file "succeeds" with a warning otherwise.
///
/// Not thread-safe: one for each thread. Errors carry no file name (the value is empty): the caller knows it.
class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;

  /// Reads the header. The file's bytes must stay until the last decode().
  /// Errors: BadData: of neither format, damaged, more than kMaxPixels.
  [[nodiscard]] Result<ImageSize> open(const EncodedImage& file);

  /// Decodes at least `box`, not empty and inside the opened picture. The view is valid until the next call of either.
  /// Errors: BadData: damaged, truncated.
  [[nodiscard]] Result<PixelView> decode(const Box& box);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace rollcall::data
