#include "trainer/data/image/decode.h"

#include <algorithm>
#include <array>
#include <utility>

#include "trainer/data/image/formats.h"

namespace rollcall::data {
namespace {

constexpr std::array kJpegMagic{std::byte{0xff}, std::byte{0xd8}, std::byte{0xff}};
constexpr std::array kPngMagic{std::byte{0x89}, std::byte{'P'},  std::byte{'N'},  std::byte{'G'},
                               std::byte{0x0d}, std::byte{0x0a}, std::byte{0x1a}, std::byte{0x0a}};

bool starts_with(std::span<const std::byte> file, std::span<const std::byte> magic) {
  return file.size() >= magic.size() && std::equal(magic.begin(), magic.end(), file.begin());
}

}  // namespace

Error damaged(std::string_view name, std::string reason) {
  return fail("--data", std::string(name), std::move(reason), "replacing or removing the file", ExitCode::BadData);
}

bool size_is_sane(long long width, long long height) { return width > 0 && height > 0 && width <= kMaxPixels / height; }

Result<Image> decode(std::span<const std::byte> file, std::string_view name) {
  if (starts_with(file, kJpegMagic)) {
    return decode_jpeg(file, name);
  }
  if (starts_with(file, kPngMagic)) {
    return decode_png(file, name);
  }
  return damaged(name, file.empty() ? "is empty" : "is neither a JPEG nor a PNG file");
}

}  // namespace rollcall::data
