#include "trainer/data/image/png_file.h"

#include <fmt/format.h>

#include "trainer/data/image/formats.h"

namespace rollcall::data {

PngFile::~PngFile() { png_image_free(&image_); }

Error PngFile::failure() const {
  return damaged(fmt::format("is a damaged PNG file ({})", static_cast<const char*>(image_.message)));
}

Result<void> PngFile::read_header() {
  png_image_free(&image_);
  image_ = {};
  image_.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image_, file_.data(), file_.size()) == 0) {
    return failure();
  }
  return check_size(image_.width, image_.height);
}

Result<ImageSize> PngFile::open(std::span<const std::byte> file) {
  file_ = file;
  if (const Result<void> header = read_header(); !header) {
    return header.error();
  }
  return ImageSize{static_cast<int>(image_.width), static_cast<int>(image_.height)};
}

Result<PixelView> PngFile::decode(KeptMemory& pixels) {
  if (image_.opaque == nullptr) {  // decoded before
    if (const Result<void> header = read_header(); !header) {
      return header.error();
    }
  }
  image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16-bit samples are as a camera's 8-bit ones, not linear light
  image_.format = PNG_FORMAT_RGBA;            // without the A libpng would blend the picture with a background
  const Box whole{0, 0, static_cast<int>(image_.width), static_cast<int>(image_.height)};
  const std::size_t row_bytes = static_cast<std::size_t>(whole.width) * kPixelBytes;
  std::uint8_t* memory = pixels.at_least(row_bytes * static_cast<std::size_t>(whole.height) + kPixelSlack);
  if (memory == nullptr) {
    return no_memory();
  }
  if (png_image_finish_read(&image_, nullptr, memory, 0, nullptr) == 0) {
    return failure();
  }
  return PixelView{memory, static_cast<std::ptrdiff_t>(row_bytes), whole};
}

}  // namespace rollcall::data
