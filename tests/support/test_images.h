#pragma once

#include <png.h>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <jpeglib.h>

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

/// How a JPEG file is written.
struct JpegStyle {
  J_COLOR_SPACE pixels = JCS_RGB;    ///< what is given: JCS_RGB, JCS_GRAYSCALE or JCS_CMYK
  J_COLOR_SPACE stored = JCS_YCbCr;  ///< what the file holds; JCS_GRAYSCALE, JCS_CMYK for those
  std::vector<std::array<int, 2>> factors = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};  ///< sampling of each component
  int quality = 95;
  bool progressive = false;
  bool arithmetic = false;
  bool one_scan_a_component = false;
  int restart_interval = 0;          ///< in MCUs; 0: none
  std::vector<std::byte> exif = {};  ///< content of an APP1 marker
};

inline void apply_style(jpeg_compress_struct& libjpeg, const JpegStyle& style) {
  jpeg_set_colorspace(&libjpeg, style.stored);
  jpeg_set_quality(&libjpeg, style.quality, TRUE);
  for (int i = 0; i < libjpeg.num_components; ++i) {
    libjpeg.comp_info[i].h_samp_factor = style.factors.at(static_cast<std::size_t>(i))[0];
    libjpeg.comp_info[i].v_samp_factor = style.factors.at(static_cast<std::size_t>(i))[1];
  }
  libjpeg.restart_interval = static_cast<unsigned>(style.restart_interval);
  libjpeg.arith_code = style.arithmetic ? TRUE : FALSE;
  if (style.progressive) {
    jpeg_simple_progression(&libjpeg);
  }
}

/// A real JPEG file of interleaved pixels, 3, 1 or 4 bytes each as the style says.
inline std::vector<std::byte> make_jpeg(const std::vector<std::uint8_t>& pixels, int width, int height,
                                        const JpegStyle& style = {}) {
  jpeg_compress_struct libjpeg{};
  jpeg_error_mgr errors{};
  libjpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&libjpeg);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&libjpeg, &buffer, &size);
  libjpeg.image_width = static_cast<JDIMENSION>(width);
  libjpeg.image_height = static_cast<JDIMENSION>(height);
  libjpeg.input_components = style.pixels == JCS_GRAYSCALE ? 1 : style.pixels == JCS_CMYK ? 4 : 3;
  libjpeg.in_color_space = style.pixels;
  jpeg_set_defaults(&libjpeg);
  apply_style(libjpeg, style);
  std::vector<jpeg_scan_info> scans;
  for (int i = 0; style.one_scan_a_component && i < libjpeg.num_components; ++i) {
    scans.push_back({1, {i, 0, 0, 0}, 0, 63, 0, 0});
  }
  if (!scans.empty()) {
    libjpeg.scan_info = scans.data();
    libjpeg.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&libjpeg, TRUE);
  if (!style.exif.empty()) {
    jpeg_write_marker(&libjpeg, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(style.exif.data()),
                      static_cast<unsigned>(style.exif.size()));
  }
  const std::size_t row_bytes = static_cast<std::size_t>(width) * static_cast<std::size_t>(libjpeg.input_components);
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels.data() + y * row_bytes);
    jpeg_write_scanlines(&libjpeg, &row, 1);
  }
  jpeg_finish_compress(&libjpeg);
  jpeg_destroy_compress(&libjpeg);
  const auto* begin = reinterpret_cast<const std::byte*>(buffer);
  std::vector<std::byte> file(begin, begin + size);
  std::free(buffer);
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
