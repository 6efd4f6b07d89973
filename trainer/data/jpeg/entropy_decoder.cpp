#include "trainer/data/jpeg/entropy_decoder.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "trainer/data/jpeg/errors.h"
#include "trainer/data/jpeg/jpeg_file.h"
#include "trainer/data/jpeg/repack.h"

namespace rollcall::data {
namespace {

constexpr int kWidth = 237;  // three tiles
constexpr int kHeight = 61;
using Pixels = std::array<std::uint8_t, std::size_t{kWidth} * kHeight * 3>;

/// Returns ramps with noise, which have long and short codes, and long and short runs.
Pixels test_pixels() {
  Pixels pixels;
  std::uint32_t noise = 1;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    noise = noise * 1664525 + 1013904223;  // Numerical Recipes' generator
    const std::size_t amplitude = i / 3 % kWidth;
    pixels[i] = static_cast<std::uint8_t>(i / 9 % 160 + (noise >> 24) * amplitude / 640);
  }
  return pixels;
}

/// Returns a JPEG of them with 4:2:0 chroma; empty if libjpeg failed.
std::vector<std::byte> test_jpeg(const Pixels& pixels, unsigned restart_interval) {
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
    libjpeg.restart_interval = restart_interval;
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

// The whole picture, a box across tiles, skipped rows and columns, the last corner.
constexpr std::array kBoxes{Box{0, 0, kWidth, kHeight}, Box{70, 3, 95, 20}, Box{130, 37, 9, 17},
                            Box{kWidth - 3, 58, 3, 3}};

/// Returns whether two decoders of an open picture agree.
template <typename Jpeg>
bool agree(Jpeg& own, Jpeg& libjpegs) {
  ReusableBuffer own_pixels;
  ReusableBuffer libjpegs_pixels;
  return std::all_of(kBoxes.begin(), kBoxes.end(), [&](const Box& box) {
    const Result<PixelView> a = own.decode(box, 1, own_pixels);
    const Result<PixelView> b = libjpegs.decode(box, 1, libjpegs_pixels);
    return a && b && same_pixels(*a, *b);
  });
}

bool agree_on_repacked(std::span<const std::byte> jpeg) {
  const Result<Repacked> repacked = repack(jpeg);
  TiledJpeg own(true);
  TiledJpeg spliced(false);
  return repacked && own.open(repacked->jpeg, repacked->tiling()) && spliced.open(repacked->jpeg, repacked->tiling()) &&
         agree(own, spliced);
}

bool agree_on_ordinary(std::span<const std::byte> jpeg) {
  const auto own = std::make_unique<JpegFile>(true);
  const auto libjpegs = std::make_unique<JpegFile>(false);
  return own->open(jpeg) && libjpegs->open(jpeg) && agree(*own, *libjpegs) && own->used_own();
}

bool try_out() {
  if (!make_tile_entropy_decoder() || !make_sequential_entropy_decoder()) {
    return false;
  }
  const auto pixels = std::make_unique<Pixels>(test_pixels());
  constexpr unsigned kInterval = 5;
  const std::vector<std::byte> plain = test_jpeg(*pixels, 0);
  const std::vector<std::byte> with_restarts = test_jpeg(*pixels, kInterval);
  return agree_on_repacked(plain) && agree_on_ordinary(plain) && agree_on_ordinary(with_restarts);
}

}  // namespace

#if !defined(ROLLCALL_OWN_ENTROPY_DECODER)
std::unique_ptr<TileEntropyDecoder> make_tile_entropy_decoder() { return nullptr; }
std::unique_ptr<EntropyDecoder> make_sequential_entropy_decoder() { return nullptr; }
#endif

bool own_entropy_decoder_works() {
  static const bool works = try_out();
  return works;
}

}  // namespace rollcall::data
