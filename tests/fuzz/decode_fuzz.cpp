// Any bytes as a picture: an Error or pixels, never a crash; and where libjpeg's entropy decoder and ours both give
// pixels, the same ones. The first bytes choose what is asked of the decoder.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "trainer/data/image/image_decoder.h"
#include "trainer/data/jpeg/repack.h"

namespace {

using rollcall::data::Box;
using rollcall::data::ImageDecoder;
using rollcall::data::ImageSize;

constexpr std::size_t kChoices = 6;
constexpr long long kMostPixels = 1 << 20;

struct Choices {
  std::array<std::uint8_t, kChoices> bytes;

  [[nodiscard]] bool apply_orientation() const { return (bytes[0] & 1U) != 0; }
  [[nodiscard]] bool halve() const { return (bytes[0] & 2U) != 0; }
  [[nodiscard]] bool compare() const { return (bytes[0] & 4U) == 0; }
  [[nodiscard]] bool repack() const { return bytes[1] == 0; }

  [[nodiscard]] Box box(ImageSize size) const {
    const auto part = [](int whole, std::uint8_t eighths) { return static_cast<int>(whole * (eighths / 256.0)); };
    Box box{part(size.width, bytes[2]) & ~1, part(size.height, bytes[3]) & ~1, 0, 0};
    box.width = 1 + part(size.width - box.left, bytes[4]);
    box.height = 1 + part(size.height - box.top, bytes[5]);
    return box;
  }
};

/// Reads every pixel that the view promises, with what lies behind the last: a sanitizer sees whether they are there.
unsigned sum_of(const rollcall::data::PixelView& view) {
  unsigned sum = 0;
  for (int y = view.area.top; y < view.area.bottom(); ++y) {
    const std::uint8_t* row = view.at(view.area.left, y);
    for (int i = 0; i < view.area.width * rollcall::data::kPixelBytes + 16; ++i) {
      sum += row[i];
    }
  }
  return sum;
}

bool same_pixels(const rollcall::data::PixelView& a, const rollcall::data::PixelView& b) {
  const auto row_bytes = static_cast<std::size_t>(a.area.width) * rollcall::data::kPixelBytes;
  for (int y = a.area.top; y < a.area.bottom(); ++y) {
    if (std::memcmp(a.at(a.area.left, y), b.at(a.area.left, y), row_bytes) != 0) {
      return false;
    }
  }
  return true;
}

/// Ends the program where libjpeg alone gives other pixels.
void compare_with_libjpeg(std::span<const std::byte> file, const Box& box, int reduction,
                          const rollcall::data::PixelView& view) {
  static ImageDecoder libjpegs({.dct_scaling = true, .own_entropy_decoder = false});
  if (libjpegs.open({.bytes = file})) {
    const auto expected = libjpegs.decode(box, reduction);
    if (expected && !same_pixels(view, *expected)) {
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static std::array decoders{ImageDecoder({.dct_scaling = true}),
                             ImageDecoder({.apply_orientation = true, .dct_scaling = true})};
  if (size < kChoices) {
    return 0;
  }
  Choices choices{};
  std::copy_n(data, kChoices, choices.bytes.begin());
  const auto file = std::as_bytes(std::span(data + kChoices, size - kChoices));
  ImageDecoder& decoder = decoders[choices.apply_orientation() ? 1 : 0];
  const auto opened = decoder.open({.bytes = file});
  if (!opened || static_cast<long long>(opened->width) * opened->height > kMostPixels) {
    return 0;
  }
  const Box box = choices.box(*opened);
  const int reduction = choices.halve() ? decoder.reduction_for(box, {1, 1}) : 1;
  const auto view = decoder.decode(box, reduction);
  volatile unsigned used = view ? sum_of(*view) : 0;
  (void)used;
  if (view && choices.compare() && !choices.apply_orientation()) {
    compare_with_libjpeg(file, box, reduction, *view);
  }
  if (choices.repack()) {
    (void)rollcall::data::repack(file);
  }
  return 0;
}
