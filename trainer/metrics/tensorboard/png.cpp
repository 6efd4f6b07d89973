#include "trainer/metrics/tensorboard/png.h"

#include <png.h>

#include <cassert>

namespace rollcall::metrics::tensorboard {

Result<std::string> encode_png(std::span<const std::uint8_t> rgb, int width, int height) {
  assert(rgb.size() == std::size_t{3} * static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  image.flags = PNG_IMAGE_FLAG_FAST;  // a training waits for it
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t bytes = file.size();
  const int done = png_image_write_to_memory(&image, file.data(), &bytes, 0, rgb.data(), 0, nullptr);
  const std::string message = image.message;
  png_image_free(&image);
  if (done == 0) {
    return fail("--tensorboard", "", "libpng: " + message, "reporting this: it is a bug", ExitCode::Internal);
  }
  file.resize(bytes);
  return file;
}

}  // namespace rollcall::metrics::tensorboard
