#include "trainer/data/image/png_file.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace rollcall::data {

void PngFile::on_error(png_structp png, const char* text) {
  PngFile& self = *static_cast<PngFile*>(png_get_error_ptr(png));
  std::snprintf(self.text_.data(), self.text_.size(), "%s", text);
  std::longjmp(self.failed_, 1);
}

void PngFile::read(png_structp png, png_bytep out, std::size_t count) {
  PngFile& self = *static_cast<PngFile*>(png_get_io_ptr(png));
  if (count > self.file_.size() - self.at_) {
    png_error(png, "Read beyond the file's end");
  }
  std::memcpy(out, self.file_.data() + self.at_, count);
  self.at_ += count;
}

Error PngFile::failure() const {
  return damaged(fmt::format("is a damaged PNG file ({})", static_cast<const char*>(text_.data())));
}

void PngFile::close() {
  png_destroy_read_struct(&png_, &info_, nullptr);  // does nothing to what is null
  header_is_read_ = false;
}

Result<ImageSize> PngFile::read_header() {
  close();
  png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, const char*) {});
  info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
  if (info_ == nullptr) {
    return no_memory();
  }
  at_ = 0;
  header_is_read_ = run([this] {
    png_set_benign_errors(png_, 1);                                          // as warnings, which say nothing of pixels
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // all that is not needed for pixels
    png_set_read_fn(png_, this, read);
    png_read_info(png_, info_);
  });
  if (!header_is_read_) {
    return failure();
  }
  const std::uint32_t width = png_get_image_width(png_, info_);
  const std::uint32_t height = png_get_image_height(png_, info_);
  if (const Result<void> sane = check_size(width, height); !sane) {
    return sane.error();
  }
  return ImageSize{static_cast<int>(width), static_cast<int>(height)};
}

Result<ImageSize> PngFile::open(std::span<const std::byte> file) {
  file_ = file;
  return read_header();
}

bool PngFile::read_rows(std::uint8_t* first, std::size_t row_bytes) {
  return run([this, first, row_bytes] {
    png_set_strip_16(png_);  // the upper 8 bits, as Pillow takes them
    png_set_palette_to_rgb(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    png_set_gray_to_rgb(png_);
    png_set_filler(png_, 0xff, PNG_FILLER_AFTER);  // where there is no alpha
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != row_bytes) {
      png_error(png_, "Unknown kind of pixels");
    }
    const std::uint32_t height = png_get_image_height(png_, info_);
    for (int pass = 0; pass < passes; ++pass) {
      for (std::uint32_t y = 0; y < height; ++y) {
        png_read_row(png_, first + y * row_bytes, nullptr);
      }
    }
  });
}

Result<PixelView> PngFile::decode(KeptMemory& pixels) {
  if (!header_is_read_) {  // decoded before
    if (const Result<ImageSize> header = read_header(); !header) {
      return header.error();
    }
  }
  const Box whole{0, 0, static_cast<int>(png_get_image_width(png_, info_)),
                  static_cast<int>(png_get_image_height(png_, info_))};
  const std::size_t row_bytes = static_cast<std::size_t>(whole.width) * kPixelBytes;
  std::uint8_t* memory = pixels.at_least(row_bytes * static_cast<std::size_t>(whole.height) + kPixelSlack);
  if (memory == nullptr) {
    return no_memory();
  }
  header_is_read_ = false;
  if (!read_rows(memory, row_bytes)) {
    return failure();
  }
  return PixelView{memory, static_cast<std::ptrdiff_t>(row_bytes), whole};
}

}  // namespace rollcall::data
