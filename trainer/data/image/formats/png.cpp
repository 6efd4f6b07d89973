// PNG: the stored samples without regard to gAMA, iCCP and similar chunks, as Pillow returns them.
#include <fmt/format.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include <png.h>

#include "trainer/data/image/whole_picture.h"
#include "trainer/data/jpeg/markers.h"

namespace rollcall::data {
namespace {

class PngPicture : public WholePicture {
 public:
  explicit PngPicture(std::span<const std::byte> file) : file_(file) {}
  ~PngPicture() override { png_destroy_read_struct(&png_, &info_, nullptr); }  // ignores null pointers

  [[nodiscard]] Result<void> read_header() {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, const char*) {});
    info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
    if (info_ == nullptr) {
      return no_memory();
    }
    const bool is_read = run([this] {
      png_set_benign_errors(png_, 1);  // these are only warnings: they do not concern pixels
      png_set_crc_action(png_, PNG_CRC_DEFAULT, PNG_CRC_ERROR_QUIT);  // a wrong checksum is damage, as in Pillow
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr,
                                  -1);  // ignore chunks that are not needed for pixels
      png_set_read_fn(png_, this, read);
      png_read_info(png_, info_);
    });
    if (!is_read) {
      return failure();
    }
    header = {{static_cast<int>(png_get_image_width(png_, info_)), static_cast<int>(png_get_image_height(png_, info_))},
              orientation_in_png()};
    return {};
  }

  [[nodiscard]] Result<void> decode(std::uint8_t* pixels) override {
    const bool is_read = run([this, pixels] {
      png_set_strip_16(png_);  // the upper 8 bits, as Pillow takes them
      png_set_palette_to_rgb(png_);
      png_set_expand_gray_1_2_4_to_8(png_);
      png_set_gray_to_rgb(png_);
      png_set_filler(png_, 0xff, PNG_FILLER_AFTER);  // if there is no alpha
      const int passes = png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
      const std::size_t row_bytes = static_cast<std::size_t>(header.size.width) * kPixelBytes;
      if (png_get_rowbytes(png_, info_) != row_bytes) {
        png_error(png_, "Unknown pixel format");
      }
      for (int pass = 0; pass < passes; ++pass) {
        for (int y = 0; y < header.size.height; ++y) {
          png_read_row(png_, pixels + static_cast<std::size_t>(y) * row_bytes, nullptr);
        }
      }
    });
    return is_read ? Result<void>() : failure();
  }

 private:
  /// Calls work(), which calls libpng. Returns false if that failed. libpng leaves a failed call by longjmp: the stack
  /// frames that this skips must not hold objects with destructors.
  template <typename Work>
  [[nodiscard]] bool run(const Work& work) {
    static_assert(std::is_trivially_destructible_v<Work>);
    if (setjmp(failed_) != 0) {
      return false;
    }
    work();
    return true;
  }

  [[nodiscard]] Error failure() const {
    return damaged(fmt::format("is a damaged PNG file ({})", static_cast<const char*>(text_.data())));
  }

  [[noreturn]] static void on_error(png_structp png, const char* text) {
    PngPicture& self = *static_cast<PngPicture*>(png_get_error_ptr(png));
    std::snprintf(self.text_.data(), self.text_.size(), "%s", text);
    std::longjmp(self.failed_, 1);
  }

  static void read(png_structp png, png_bytep out, std::size_t count) {
    PngPicture& self = *static_cast<PngPicture*>(png_get_io_ptr(png));
    if (count > self.file_.size() - self.at_) {
      png_error(png, "Unexpected end of file");
    }
    std::memcpy(out, self.file_.data() + self.at_, count);
    self.at_ += count;
  }

  /// Returns the orientation in the first eXIf chunk, which may be after the pixels. A chunk is: length, name (4 bytes
  /// each), content, checksum.
  [[nodiscard]] int orientation_in_png() const {
    for (std::size_t at = 8; file_.size() - at >= 12;) {
      const std::size_t length = std::size_t{uint16_at(file_, at)} << 16U | uint16_at(file_, at + 2);
      if (length > file_.size() - at - 12) {
        break;
      }
      if (std::memcmp(file_.data() + at + 4, "eXIf", 4) == 0) {
        return orientation_in_exif(file_.subspan(at + 8, length));
      }
      at += length + 12;
    }
    return 1;
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::span<const std::byte> file_;
  std::size_t at_ = 0;  ///< what libpng reads next
  std::jmp_buf failed_{};
  std::array<char, 100> text_{};
};

}  // namespace

OpenedPicture open_png(std::span<const std::byte> file) {
  auto picture = std::make_unique<PngPicture>(file);
  const Result<void> read = picture->read_header();
  return read ? OpenedPicture(std::move(picture)) : read.error();
}

}  // namespace rollcall::data
