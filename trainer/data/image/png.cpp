#include <fmt/format.h>
#include <png.h>
#include <vector>

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

Error damaged_png(Reader& reader, std::string_view name) {
  return damaged(name, fmt::format("is a damaged PNG file ({})", reader->message));
}

}  // namespace

Result<Image> decode_png(std::span<const std::byte> file, std::string_view name) {
  Reader reader;
  if (png_image_begin_read_from_memory(reader.get(), file.data(), file.size()) == 0) {
    return damaged_png(reader, name);
  }
  if (!size_is_sane(reader->width, reader->height)) {
    return damaged(name, fmt::format("has {} x {} pixels, more than {}", reader->width, reader->height, kMaxPixels));
  }
  reader->flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16-bit samples are as a camera's 8-bit ones, not linear light
  reader->format = PNG_FORMAT_RGBA;            // without the A libpng would blend the picture with a background

  Image image = Image::make(static_cast<int>(reader->width), static_cast<int>(reader->height));
  std::vector<std::uint8_t> rgba(PNG_IMAGE_SIZE(*reader.get()));
  if (png_image_finish_read(reader.get(), nullptr, rgba.data(), 0, nullptr) == 0) {
    return damaged_png(reader, name);
  }
  for (std::size_t i = 0; i < rgba.size() / 4; ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      image.pixels[3 * i + c] = rgba[4 * i + c];
    }
  }
  return image;
}

}  // namespace rollcall::data
