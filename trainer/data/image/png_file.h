#pragma once

#include <array>
#include <csetjmp>
#include <cstddef>
#include <span>
#include <type_traits>

#include <png.h>

#include "runtime/base/result.h"
#include "trainer/data/encoded_image.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {

/// A PNG file, behind ImageDecoder: its samples as they stand there, without a look at gAMA, iCCP and the like, as
/// Pillow gives them. libpng has no way to a part of a picture: it is decoded whole.
class PngFile {
 public:
  PngFile() = default;
  ~PngFile() { close(); }
  PngFile(const PngFile&) = delete;
  PngFile& operator=(const PngFile&) = delete;

  /// The bytes must stay until the last decode(). Errors: BadData.
  [[nodiscard]] Result<ImageSize> open(std::span<const std::byte> file);
  [[nodiscard]] Result<PixelView> decode(KeptMemory& pixels);

 private:
  /// Calls work(), which calls libpng; false where that failed. libpng leaves a failed call by longjmp: the frames that
  /// this skips may hold nothing that has a destructor.
  template <typename Work>
  [[nodiscard]] bool run(const Work& work) {
    static_assert(std::is_trivially_destructible_v<Work>);
    if (setjmp(failed_) != 0) {
      return false;
    }
    work();
    return true;
  }

  [[nodiscard]] Result<ImageSize> read_header();
  [[nodiscard]] bool read_rows(std::uint8_t* first, std::size_t row_bytes);
  [[nodiscard]] Error failure() const;
  void close();

  [[noreturn]] static void on_error(png_structp png, const char* text);
  static void read(png_structp png, png_bytep out, std::size_t count);

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::span<const std::byte> file_;
  std::size_t at_ = 0;  ///< what libpng reads next
  bool header_is_read_ = false;
  std::jmp_buf failed_{};
  std::array<char, 100> text_{};
};

}  // namespace rollcall::data
