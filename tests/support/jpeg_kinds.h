#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/rgb_image.h"
#include "tests/support/test_images.h"
#include "trainer/data/jpeg/decompressor.h"

namespace rollcall::test {

/// Pixels with edges and noise, so that a wrong neighbour shows in every one of them.
inline std::vector<std::uint8_t> rough_pixels(int width, int height, int channels, std::mt19937& random) {
  std::vector<std::uint8_t> pixels = smooth_pixels(width, height, static_cast<unsigned>(random()), channels);
  for (std::uint8_t& level : pixels) {
    level = static_cast<std::uint8_t>(std::clamp(level + static_cast<int>(random() % 81) - 40, 0, 255));
  }
  return pixels;
}

struct JpegKind {
  std::string name;
  JpegStyle style;
};

/// Every way in which libjpeg can write a picture that has something to do with reading a part of it.
inline std::vector<JpegKind> jpeg_kinds() {
  const JpegStyle grey{.pixels = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE};
  const JpegStyle cmyk{.pixels = JCS_CMYK, .stored = JCS_CMYK};
  std::vector<JpegKind> kinds{{"4:4:4", {}}, {"grey", grey}, {"CMYK", cmyk}};
  const auto add = [&](std::string name, JpegStyle style, std::vector<std::array<int, 2>> factors) {
    style.factors = std::move(factors);
    style.quality = 60 + static_cast<int>(kinds.size() * 7 % 40);
    kinds.push_back({std::move(name), std::move(style)});
  };
  add("4:2:2", {}, {{2, 1}, {1, 1}, {1, 1}});
  add("4:2:0", {}, {{2, 2}, {1, 1}, {1, 1}});
  add("4:4:0", {}, {{1, 2}, {1, 1}, {1, 1}});
  add("4:1:1", {}, {{4, 1}, {1, 1}, {1, 1}});
  add("4:1:0", {}, {{4, 2}, {1, 1}, {1, 1}});
  add("uneven chroma", {}, {{2, 2}, {2, 1}, {1, 2}});
  add("wide chroma", {}, {{1, 1}, {2, 1}, {1, 1}});
  add("thirds", {}, {{3, 1}, {1, 1}, {1, 1}});
  add("all factors 2", {}, {{2, 1}, {2, 1}, {2, 1}});
  add("grey 2x2", grey, {{2, 2}});
  add("grey 1x2", grey, {{1, 2}});
  add("RGB", {.stored = JCS_RGB}, {{1, 1}, {1, 1}, {1, 1}});
  add("YCCK 4:2:0", {.pixels = JCS_CMYK, .stored = JCS_YCCK}, {{2, 2}, {1, 1}, {1, 1}, {2, 2}});
  add("progressive 4:4:4", {.progressive = true}, {{1, 1}, {1, 1}, {1, 1}});
  add("progressive 4:2:0", {.progressive = true}, {{2, 2}, {1, 1}, {1, 1}});
  add("progressive 4:2:2 with restarts", {.progressive = true, .restart_interval = 3}, {{2, 1}, {1, 1}, {1, 1}});
  add("restarts 4:2:0", {.restart_interval = 5}, {{2, 2}, {1, 1}, {1, 1}});
  add("restarts 4:4:4", {.restart_interval = 1}, {{1, 1}, {1, 1}, {1, 1}});
  add("one scan a component", {.one_scan_a_component = true}, {{2, 2}, {1, 1}, {1, 1}});
  add("arithmetic 4:2:0", {.arithmetic = true}, {{2, 2}, {1, 1}, {1, 1}});
  add("arithmetic progressive", {.progressive = true, .arithmetic = true}, {{2, 1}, {1, 1}, {1, 1}});
  return kinds;
}

/// Those that repack() takes.
inline std::vector<JpegKind> repackable_kinds() {
  std::vector<JpegKind> kinds = jpeg_kinds();
  std::erase_if(kinds, [](const JpegKind& kind) { return kind.style.arithmetic || kind.style.pixels == JCS_CMYK; });
  return kinds;
}

/// A name made fit for GoogleTest.
inline std::string identifier(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

inline std::string describe(data::ImageSize size, const data::Box& box) {
  return fmt::format("crop {} {} {} x {} of {} x {}", box.left, box.top, box.width, box.height, size.width,
                     size.height);
}

/// A small or middling size: odd ones and tiny ones are where crops go wrong.
inline data::ImageSize random_size(std::mt19937& random) {
  const unsigned limit = random() % 8 == 0 ? 500 : random() % 2 == 0 ? 150 : 40;
  return {1 + static_cast<int>(random() % limit), 1 + static_cast<int>(random() % limit)};
}

inline data::Box random_box(data::ImageSize size, std::mt19937& random) {
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  const bool small = random() % 3 == 0;
  data::Box box;
  box.width = 1 + below(small ? std::min(size.width, 12) : size.width);
  box.height = 1 + below(small ? std::min(size.height, 12) : size.height);
  box.left = below(size.width - box.width + 1);
  box.top = below(size.height - box.height + 1);
  return box;
}

inline std::vector<std::byte> random_jpeg(const JpegKind& kind, data::ImageSize size, std::mt19937& random) {
  const int channels = kind.style.pixels == JCS_GRAYSCALE ? 1 : kind.style.pixels == JCS_CMYK ? 4 : 3;
  return make_jpeg(rough_pixels(size.width, size.height, channels, random), size.width, size.height, kind.style);
}

/// The whole picture by libjpeg's plain calls, as everybody decodes it; `scale` eighths of its size. Ends the test
/// program where the file is bad.
inline RgbImage plainly_decoded(std::span<const std::byte> file, unsigned scale = 8) {
  jpeg_decompress_struct libjpeg{};
  jpeg_error_mgr errors{};
  libjpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&libjpeg);
  jpeg_mem_src(&libjpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&libjpeg, TRUE);
  const bool is_cmyk = libjpeg.num_components == 4;
  libjpeg.out_color_space = is_cmyk ? JCS_CMYK : JCS_EXT_RGBX;
  libjpeg.scale_num = scale;
  libjpeg.scale_denom = 8;
  jpeg_start_decompress(&libjpeg);
  const data::Box whole{0, 0, static_cast<int>(libjpeg.output_width), static_cast<int>(libjpeg.output_height)};
  const std::size_t row_bytes = libjpeg.output_width * std::size_t{4};
  std::vector<std::uint8_t> pixels(row_bytes * libjpeg.output_height);
  while (libjpeg.output_scanline < libjpeg.output_height) {
    JSAMPROW row = pixels.data() + libjpeg.output_scanline * row_bytes;
    jpeg_read_scanlines(&libjpeg, &row, 1);
  }
  jpeg_finish_decompress(&libjpeg);
  jpeg_destroy_decompress(&libjpeg);
  if (is_cmyk) {
    data::cmyk_to_rgb(pixels.data(), row_bytes, whole.width, whole.height);
  }
  return copy_of({pixels.data(), static_cast<std::ptrdiff_t>(row_bytes), whole}, whole);
}

/// The part of a picture.
inline RgbImage cut_out(const RgbImage& image, const data::Box& box) {
  RgbImage part{box.width, box.height, {}};
  for (int y = box.top; y < box.bottom(); ++y) {
    const auto row = image.pixels.begin() + static_cast<std::ptrdiff_t>(y * image.width + box.left) * 3;
    part.pixels.insert(part.pixels.end(), row, row + static_cast<std::ptrdiff_t>(box.width) * 3);
  }
  return part;
}

}  // namespace rollcall::test
