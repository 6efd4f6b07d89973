#pragma once

#include <memory>

#include "runtime/base/result.h"
#include "trainer/data/encoded_image.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {

/// Options of a decoder beyond plain decoding.
struct DecodeOptions {
  bool apply_orientation = false;  ///< apply the EXIF orientation, which torchvision ignores
  bool dct_scaling = false;        ///< let reduction_for() return 2: faster, but the pixels differ from full decoding
  /// Decode JPEG coefficients with the decoders of entropy_decoder.h if own_entropy_decoder_works(), else with libjpeg,
  /// which is slower. The pixels are the same.
  bool own_entropy_decoder = true;
};

/// Decodes a part of a picture to 8-bit RGB, one file after another, in memory that is reused. Supports JPEG, PNG and
/// BMP, and WebP, TIFF, GIF and AVIF if the build found their libraries. The first bytes decide the format, not the
/// file's name. If a file holds several pictures, the first is decoded.
///
/// The result is bit for bit the crop of the fully decoded picture, as by Pillow's `Image.open(...).convert("RGB")`:
///  - JPEG (libjpeg-turbo, accurate DCT, fancy upsampling): greyscale is repeated three times; CMYK and YCCK are read
///    as Adobe writes them, inverted, and multiplied out. Only what the box needs is decoded, but damage elsewhere
///    fails too.
///  - JPEG with a Tiling, as repack() writes it: only the tiles that the box needs are read.
///  - All others are decoded completely: palette and greyscale are expanded, alpha is dropped (not blended), and of 16
///    bits the upper 8 are used; gAMA and colour profiles are ignored. Pillow instead clips 16-bit greyscale at 255,
///    which turns nearly all of it white. TIFF is turned by its orientation whatever the options, as by Pillow.
/// A libjpeg warning counts as damage if libjpeg may have guessed pixels: a truncated file "succeeds" with a warning.
///
/// Not thread-safe: use one decoder per thread. Errors have an empty value: the caller adds the file's name.
class ImageDecoder {
 public:
  explicit ImageDecoder(const DecodeOptions& options = {});
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;

  /// Reads the header and returns the size of the picture for decode(), after turning if the options ask for it. The
  /// file's bytes and tile lengths must stay valid until the last decode(). Errors: BadData: an unknown format, damage,
  /// more than kMaxPixels, or a tiling that does not fit the file.
  [[nodiscard]] Result<ImageSize> open(const EncodedImage& file);

  /// Returns the EXIF orientation of the open picture, 1 ... 8, whether or not the options apply it; 1 for TIFF.
  [[nodiscard]] int orientation() const;

  /// Returns the factor by which decode() may reduce the picture while decoding `box`, which is then resized to
  /// `wanted`: 2 with dct_scaling for a JPEG whose box is at least twice as wide and as high as `wanted`, else 1.
  [[nodiscard]] int reduction_for(const Box& box, ImageSize wanted) const;

  /// Decodes at least `box`, which is not empty and inside the open picture. The view is valid until the next call of
  /// open() or decode().
  ///
  /// `reduction` is 1 or the result of reduction_for(). With 2 the picture is decoded at half its size (libjpeg's 4/8
  /// inverse DCT), ceil(width / 2) x ceil(height / 2), and its pixel (x, y) represents the four around (2x + 0.5, 2y +
  /// 0.5). The view's area is then in coordinates of that picture and covers at least {left / 2, top / 2, ceil(width /
  /// 2), ceil(height / 2)} of a box whose left and top must be even.
  ///
  /// Errors: BadData: damaged, truncated.
  [[nodiscard]] Result<PixelView> decode(const Box& box, int reduction = 1);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace rollcall::data
