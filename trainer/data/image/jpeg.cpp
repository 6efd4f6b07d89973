#include <fmt/format.h>
#include <turbojpeg.h>
#include <memory>
#include <vector>

#include "trainer/data/image/formats.h"

namespace rollcall::data {
namespace {

struct Destroy {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Decompressor = std::unique_ptr<void, Destroy>;

// A scan costs a pass over the picture however small it is, so a progressive file may not hold thousands of them.
constexpr int kFlags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;

Error damaged_jpeg(Decompressor& decompressor, std::string_view name) {
  return damaged(name, fmt::format("is a damaged JPEG file ({})", tjGetErrorStr2(decompressor.get())));
}

/// Pillow's MULDIV255: a * b / 255, rounded, without a division.
int multiply_255(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

/// `ink` holds 255 - C, 255 - M, 255 - Y, 255 - K of each pixel, as Adobe stores them.
void multiply_inks(const std::vector<std::uint8_t>& ink, Image& image) {
  const std::size_t pixels = ink.size() / 4;
  for (std::size_t i = 0; i < pixels; ++i) {
    const int light = ink[4 * i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      image.pixels[3 * i + c] = static_cast<std::uint8_t>(light - multiply_255(255 - ink[4 * i + c], light));
    }
  }
}

}  // namespace

Result<Image> decode_jpeg(std::span<const std::byte> file, std::string_view name) {
  Decompressor decompressor(tjInitDecompress());
  if (!decompressor) {
    return damaged(name, "cannot be decoded: no memory for the JPEG decoder");
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
  int width = -1;
  int height = -1;
  int subsampling = -1;
  int colour_space = -1;
  // Fails for a sampling that has no TJSAMP constant too, but then has told the size, which is all that is asked here.
  const int status =
      tjDecompressHeader3(decompressor.get(), bytes, file.size(), &width, &height, &subsampling, &colour_space);
  if (status != 0 && (width < 1 || height < 1 || colour_space < 0)) {
    return damaged_jpeg(decompressor, name);
  }
  if (!size_is_sane(width, height)) {
    return damaged(name, fmt::format("has {} x {} pixels, more than {}", width, height, kMaxPixels));
  }

  Image image = Image::make(width, height);
  const bool inks = colour_space == TJCS_CMYK || colour_space == TJCS_YCCK;
  std::vector<std::uint8_t> ink(inks ? image.row_bytes() / 3 * 4 * static_cast<std::size_t>(height) : 0);
  if (tjDecompress2(decompressor.get(), bytes, file.size(), inks ? ink.data() : image.pixels.get(), width, 0, height,
                    inks ? TJPF_CMYK : TJPF_RGB, kFlags) != 0) {
    return damaged_jpeg(decompressor, name);
  }
  if (inks) {
    multiply_inks(ink, image);
  }
  return image;
}

}  // namespace rollcall::data
