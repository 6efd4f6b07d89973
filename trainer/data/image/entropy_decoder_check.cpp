#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "trainer/data/image/entropy_decoder.h"
#include "trainer/data/image/jpeg_errors.h"
#include "trainer/data/image/repack.h"
#include "trainer/data/image/tiled_jpeg.h"

namespace rollcall::data {
namespace {

constexpr int kWidth = 203;
constexpr int kHeight = 61;
using Pixels = std::array<std::uint8_t, std::size_t{kWidth} * kHeight * 3>;

/// Ramps with noise: long and short codes, long and short runs.
Pixels test_pixels() {
  Pixels pixels;
  std::uint32_t noise = 1;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    noise = noise * 1664525 + 1013904223;  // Numerical Recipes' generator
    const std::size_t amplitude = i / 3 % kWidth;
    pixels[i] = static_cast<std::uint8_t>(i / 9 % 160 + (noise >> 24) * amplitude / 550);
  }
  return pixels;
}

/// A JPEG of them with 4:2:0 chroma; empty where libjpeg failed.
std::vector<std::byte> test_jpeg(const Pixels& pixels) {
  JpegErrors errors;
  jpeg_compress_struct libjpeg{};
  libjpeg.err = errors.manager();
  unsigned char* written = nullptr;
  unsigned long bytes = 0;
  const bool done = errors.run([&] {
    jpeg_create_compress(&libjpeg);
    jpeg_mem_dest(&libjpeg, &written, &bytes);
    libjpeg.image_width = kWidth;
    libjpeg.image_height = kHeight;
    libjpeg.input_components = 3;
    libjpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&libjpeg);  // includes 4:2:0
    jpeg_set_quality(&libjpeg, 90, TRUE);
    jpeg_start_compress(&libjpeg, TRUE);
    for (std::size_t y = 0; y < kHeight; ++y) {
      JSAMPROW row = const_cast<JSAMPROW>(pixels.data() + y * kWidth * 3);
      jpeg_write_scanlines(&libjpeg, &row, 1);
    }
    jpeg_finish_compress(&libjpeg);
  });
  jpeg_destroy_compress(&libjpeg);
  const std::span<const std::byte> file = std::as_bytes(std::span(written, done ? bytes : 0));
  std::vector<std::byte> copy(file.begin(), file.end());
  std::free(written);
  return copy;
}

bool same_pixels(const PixelView& a, const PixelView& b) {
  for (int y = a.area.top; y < a.area.bottom(); ++y) {
    if (std::memcmp(a.at(a.area.left, y), b.at(a.area.left, y), static_cast<std::size_t>(a.area.width) * kPixelBytes) !=
        0) {
      return false;
    }
  }
  return true;
}

bool try_out() {
  const Result<Repacked> repacked = repack(test_jpeg(test_pixels()));
  if (!repacked) {
    return false;
  }
  TiledJpeg own(true);
  TiledJpeg spliced(false);
  KeptMemory own_pixels;
  KeptMemory spliced_pixels;
  if (!own.open(repacked->jpeg, repacked->tiling()) || !spliced.open(repacked->jpeg, repacked->tiling())) {
    return false;
  }
  // Everything, something across tiles, skipped rows and columns, the last corner.
  for (const Box& box : {Box{0, 0, kWidth, kHeight}, Box{70, 3, 90, 20}, Box{130, 37, 9, 17}, Box{200, 58, 3, 3}}) {
    const Result<PixelView> a = own.decode(box, 1, own_pixels);
    const Result<PixelView> b = spliced.decode(box, 1, spliced_pixels);
    if (!a || !b || !same_pixels(*a, *b)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool own_entropy_decoder_works() {
  static const bool works = try_out();
  return works;
}

}  // namespace rollcall::data
