#include <fmt/format.h>
#include <png.h>

#include "trainer/data/image/formats.h"

namespace rollcall::data {
namespace {

/// libpng's simplified reader; png_image_free is safe in every state.
class Reader {
 public:
  Reader() { image_.version = PNG_IMAGE_VERSION; }
  ~Reader() { png_image_free(&image_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  png_image* operator->() { return &image_; }
  png_image* get() { return &image_; }

 private:
  png_image image_{};
};

Error damaged_png(Reader& reader) { return damaged(fmt::format("is a damaged PNG file ({})", reader->message)); }

}  // namespace

Result<Picture> decode_png(std::span<const std::byte> file) {
  Reader reader;
  if (png_image_begin_read_from_memory(reader.get(), file.data(), file.size()) == 0) {
    return damaged_png(reader);
  }
  if (!size_is_sane(reader->width, reader->height)) {
    return damaged(fmt::format("has {} x {} pixels, more than {}", reader->width, reader->height, kMaxPixels));
  }
  reader->flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16-bit samples are as a camera's 8-bit ones, not linear light
  reader->format = PNG_FORMAT_RGBA;            // without the A libpng would blend the picture with a background

  Picture picture{{static_cast<int>(reader->width), static_cast<int>(reader->height)}, {}};
  picture.pixels.resize(PNG_IMAGE_SIZE(*reader.get()) + 16);
  if (png_image_finish_read(reader.get(), nullptr, picture.pixels.data(), 0, nullptr) == 0) {
    return damaged_png(reader);
  }
  return picture;
}

}  // namespace rollcall::data
