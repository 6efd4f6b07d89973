#pragma once

#include <png.h>
#include <turbojpeg.h>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace rollcall::test {

/// Smooth random pixels (interleaved): ramps up and down, so that JPEG changes them little.
inline std::vector<std::uint8_t> smooth_pixels(int width, int height, unsigned seed, int channels = 3) {
  std::mt19937 random(seed);
  const int step_x = 1 + static_cast<int>(random() % 3);
  const int step_y = 1 + static_cast<int>(random() % 3);
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const int phase = (x * step_x + y * step_y + 60 * c) % 400;
        pixels.push_back(static_cast<std::uint8_t>(20 + (phase < 200 ? phase : 399 - phase)));
      }
    }
  }
  return pixels;
}

/// A real JPEG file; `format` is a TJPF_ constant of pixels with `channels` bytes each.
inline std::vector<std::byte> make_jpeg(const std::vector<std::uint8_t>& pixels, int width, int height,
                                        int format = TJPF_RGB, int sampling = TJSAMP_444, int flags = 0) {
  tjhandle compressor = tjInitCompress();
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  tjCompress2(compressor, pixels.data(), width, 0, height, format, &buffer, &size, sampling, 95, flags);
  const auto* begin = reinterpret_cast<const std::byte*>(buffer);
  std::vector<std::byte> file(begin, begin + size);
  tjFree(buffer);
  tjDestroy(compressor);
  return file;
}

/// A real PNG file; `format` is a PNG_FORMAT_ constant, `colour_map` belongs to PNG_FORMAT_*_COLORMAP (RGB triples).
inline std::vector<std::byte> make_png(const void* pixels, int width, int height, std::uint32_t format = PNG_FORMAT_RGB,
                                       const void* colour_map = nullptr, std::uint32_t colours = 0) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = format;
  image.colormap_entries = colours;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&image, nullptr, &size, 0, pixels, 0, colour_map);
  std::vector<std::byte> file(size);
  png_image_write_to_memory(&image, file.data(), &size, 0, pixels, 0, colour_map);
  file.resize(size);
  return file;
}

inline void write_file(const std::string& path, std::span<const std::byte> content) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
}

}  // namespace rollcall::test
