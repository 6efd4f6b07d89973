#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/result.h"
#include "trainer/data/jpeg/entropy_decoder.h"
#include "trainer/data/jpeg/errors.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {

/// What is wanted of a JPEG, in pixels of the picture as it is decoded: reduced by 1 or 2.
struct JpegCrop {
  Box box = {};
  int picture_width = 0;  ///< columns that belong to the picture; the JPEG may hold more to the right of them
  int reduction = 1;
};

/// The columns left ... right - 1 with what fancy upsampling looks at: it takes the outermost columns of what is
/// decoded for the picture's edges, and gives way to plain repetition where hardly any are left.
[[nodiscard]] ColumnRange with_context(int left, int right, int picture_width);

/// One libjpeg decompressor for file after file. Errors: BadData throughout.
class JpegDecompressor {
 public:
  JpegDecompressor();
  ~JpegDecompressor();
  JpegDecompressor(const JpegDecompressor&) = delete;
  JpegDecompressor& operator=(const JpegDecompressor&) = delete;

  /// Reads the header and checks the size. The bytes must stay until the last decode().
  [[nodiscard]] Result<ImageSize> read_header(std::span<const std::byte> file);

  /// Decodes the crop into `pixels`; its area is crop.box. `entropy_decoder` may be null: libjpeg's own then does it
  /// all.
  [[nodiscard]] Result<PixelView> decode(const JpegCrop& crop, KeptMemory& pixels, EntropyDecoder* entropy_decoder);

 private:
  /// Where the rows of the decoded columns go.
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

/// Turns pixels of 255 - C, 255 - M, 255 - Y, 255 - K, as Adobe stores them in CMYK and YCCK JPEG files, into red,
/// green and blue in place, with Pillow's arithmetic.
void cmyk_to_rgb(std::uint8_t* pixels, std::size_t row_bytes, int width, int height);

}  // namespace rollcall::data
