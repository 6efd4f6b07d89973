#pragma once

#include <cstddef>
#include <span>

#include "runtime/base/result.h"
#include "trainer/data/image/image.h"
#include "trainer/data/image/jpeg_errors.h"
#include "trainer/data/image/kept_memory.h"

namespace rollcall::data {

/// From which column to which one, of pixels or MCUs, must be decoded for the pixels of a few to be right.
struct ColumnRange {
  int first = 0;
  int end = 0;
};

/// Takes the place of libjpeg's entropy decoder.
class EntropyHook {
 public:
  /// Called when libjpeg is ready to decode; `needed_mcus` are the MCUs of each row that libjpeg transforms, counted as
  /// they are coded. A hook that is not for such a file leaves libjpeg's own decoder in place.
  virtual void attach(jpeg_decompress_struct& decompressor, ColumnRange needed_mcus) = 0;

 protected:
  ~EntropyHook() = default;
};

/// What is wanted of a JPEG, in pixels of the picture as it is decoded: reduced by 1 or 2.
struct JpegWindow {
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

  /// Decodes the window into `pixels`; its area is window.box. `hook` may be null.
  [[nodiscard]] Result<PixelView> decode(const JpegWindow& window, KeptMemory& pixels, EntropyHook* hook);

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
  [[nodiscard]] bool start(const JpegWindow& window, EntropyHook* hook, Rows& rows);
  void crop(const JpegWindow& window, EntropyHook* hook, Rows& rows);
  [[nodiscard]] bool read(const Rows& rows);
  void abort();
  [[nodiscard]] Error failure() const;

  JpegErrors errors_;
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct libjpeg_{};
  std::span<const std::byte> file_;
  bool header_is_read_ = false;
};

}  // namespace rollcall::data
