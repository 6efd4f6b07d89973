#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/result.h"
#include "trainer/data/jpeg/entropy_decoder.h"
#include "trainer/data/jpeg/errors.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {

/// The requested part of a JPEG, in pixels of the picture as it is decoded: reduced by 1 or 2.
struct JpegCrop {
  Box box = {};
  int picture_width = 0;  ///< columns of the picture; the JPEG may have more to the right
  int reduction = 1;
};

/// Returns the columns left ... right - 1 extended by the columns that fancy upsampling reads: it treats the outermost
/// decoded columns as the picture's edges, and falls back to plain repetition if hardly any are left.
[[nodiscard]] ColumnRange with_context(int left, int right, int picture_width);

/// A libjpeg decompressor that is reused for one file after another. All errors are BadData.
class JpegDecompressor {
 public:
  JpegDecompressor();
  ~JpegDecompressor();
  JpegDecompressor(const JpegDecompressor&) = delete;
  JpegDecompressor& operator=(const JpegDecompressor&) = delete;

  /// Reads the header and checks the size. The bytes must stay valid until the last decode().
  [[nodiscard]] Result<ImageSize> read_header(std::span<const std::byte> file);

  /// Decodes the crop into `pixels`; the view's area is crop.box. If `entropy_decoder` is null, libjpeg's is used.
  [[nodiscard]] Result<PixelView> decode(const JpegCrop& crop, ReusableBuffer& pixels, EntropyDecoder* entropy_decoder);

 private:
  /// The destination of the decoded rows.
  struct Rows {
    std::uint8_t* memory = nullptr;
    std::size_t row_bytes = 0;
    int first_column = 0;
    int first_row = 0;
    int count = 0;
  };

  [[nodiscard]] bool create();
  [[nodiscard]] bool parse_header();
  [[nodiscard]] bool start(const JpegCrop& crop, EntropyDecoder* entropy_decoder, Rows& rows);
  void choose_part(const JpegCrop& crop, EntropyDecoder* entropy_decoder, Rows& rows);
  [[nodiscard]] bool read(const Rows& rows);
  [[nodiscard]] bool read_to_end(const Rows& rows, EntropyDecoder* entropy_decoder);
  void abort();
  [[nodiscard]] Error failure() const;

  JpegErrors errors_;
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct libjpeg_{};
  std::span<const std::byte> file_;
  bool header_is_read_ = false;
};

/// Converts pixels of 255 - C, 255 - M, 255 - Y, 255 - K, as Adobe stores them in CMYK and YCCK JPEG files, to red,
/// green and blue in place, with Pillow's arithmetic.
void cmyk_to_rgb(std::uint8_t* pixels, std::size_t row_bytes, int width, int height);

}  // namespace rollcall::data
