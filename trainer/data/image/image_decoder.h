#pragma once

#include <memory>

#include "runtime/base/result.h"
#include "trainer/data/encoded_image.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {

/// What a decoder does beyond giving the pixels that the file holds.
struct DecodeOptions {
  bool apply_orientation = false;  ///< turn pictures as their EXIF orientation says; torchvision ignores it
  bool dct_scaling = false;        ///< let reduction_for() answer 2: fast, but other pixels than full decoding gives
  /// Decode the coefficients of JPEGs as entropy_decoder.h says, where own_entropy_decoder_works(); else by libjpeg
  /// alone, which takes longer. The pixels are the same.
  bool own_entropy_decoder = true;
};

/// Decodes the wanted part of pictures to 8-bit RGB, one file after another, in memory that it keeps: JPEG, PNG and
/// BMP; WebP, TIFF, GIF and AVIF where the build found their libraries. The format is told by the first bytes, whatever
/// the file's name says; of several pictures in a file the first is taken.
///
/// Gives the pixels that decoding all and cropping would give, bit for bit, which are those of Pillow's
/// `Image.open(...).convert("RGB")`:
///  - JPEG (libjpeg-turbo, accurate DCT, fancy upsampling): greyscale is repeated three times; CMYK and YCCK are taken
///    as Adobe writes them, inverted, and multiplied out. Only what the box needs is decoded; damage elsewhere fails
///    all the same.
///  - JPEG with a Tiling, as repack() writes it: only the tiles that the box needs are read at all.
///  - All others, which are decoded whole: palette and greyscale expanded, alpha dropped (not blended), of 16 bits the
///    upper 8; gAMA and profiles are not looked at. Unlike Pillow, which cuts greyscale of 16 bits off at 255: nearly
///    all of it would be white. TIFF is turned as its orientation says, whatever the options, as by Pillow.
/// What libjpeg warns of counts as damage where it may have guessed pixels: a truncated file "succeeds" with a warning.
///
/// Not thread-safe: one for each thread. Errors carry no file name (the value is empty): the caller knows it.
class ImageDecoder {
 public:
  explicit ImageDecoder(const DecodeOptions& options = {});
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;

  /// Reads the header; gives the size of the picture as decode() sees it, turned if the options ask for that. The
  /// file's bytes and tile lengths must stay until the last decode().
  /// Errors: BadData: of no known format, damaged, more than kMaxPixels, a tiling that does not fit the file.
  [[nodiscard]] Result<ImageSize> open(const EncodedImage& file);

  /// EXIF's orientation of the opened picture, 1 ... 8, whether the options ask for turning or not; 1 of a TIFF.
  [[nodiscard]] int orientation() const;

  /// By how much decode() may reduce the opened picture while it decodes `box`, which will be resized to `wanted`:
  /// 2 with dct_scaling for a JPEG whose box is at least twice as wide and as high as wanted, else 1.
  [[nodiscard]] int reduction_for(const Box& box, ImageSize wanted) const;

  /// Decodes at least `box`, not empty and inside the opened picture. The view is valid until the next call of either.
  ///
  /// `reduction` is 1, or what reduction_for() answered. With 2 the picture is decoded at half its size (libjpeg's 4/8
  /// inverse DCT), ceil(width / 2) x ceil(height / 2); its pixel (x, y) stands for the four around
  /// (2x + 0.5, 2y + 0.5). The view's area is then in that picture's coordinates and covers at least
  /// {left / 2, top / 2, ceil(width / 2), ceil(height / 2)} of a box whose left and top must be even.
  ///
  /// Errors: BadData: damaged, truncated.
  [[nodiscard]] Result<PixelView> decode(const Box& box, int reduction = 1);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace rollcall::data
