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

Error damaged_jpeg(Decompressor& decompressor) {
  return damaged(fmt::format("is a damaged JPEG file ({})", tjGetErrorStr2(decompressor.get())));
}

/// Pillow's MULDIV255: a * b / 255, rounded, without a division.
int multiply_255(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

/// The pixels hold 255 - C, 255 - M, 255 - Y, 255 - K, as Adobe stores them.
void multiply_inks(Picture& picture) {
  for (std::size_t i = 0; i + 3 < picture.pixels.size(); i += 4) {
    const int light = picture.pixels[i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      picture.pixels[i + c] = static_cast<std::uint8_t>(light - multiply_255(255 - picture.pixels[i + c], light));
    }
  }
}

}  // namespace

Result<Picture> decode_jpeg(std::span<const std::byte> file) {
  Decompressor decompressor(tjInitDecompress());
  if (!decompressor) {
    return damaged("cannot be decoded: no memory for the JPEG decoder");
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
    return damaged_jpeg(decompressor);
  }
  if (!size_is_sane(width, height)) {
    return damaged(fmt::format("has {} x {} pixels, more than {}", width, height, kMaxPixels));
  }

  Picture picture{{width, height}, {}};
  picture.pixels.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 4 + 16);
  const bool inks = colour_space == TJCS_CMYK || colour_space == TJCS_YCCK;
  if (tjDecompress2(decompressor.get(), bytes, file.size(), picture.pixels.data(), width, 0, height,
                    inks ? TJPF_CMYK : TJPF_RGBX, kFlags) != 0) {
    return damaged_jpeg(decompressor);
  }
  if (inks) {
    multiply_inks(picture);
  }
  return picture;
}

}  // namespace rollcall::data
