// WebP, TIFF, GIF, AVIF and BMP: damaged and malicious files.
// tests/trainer/data/image/test_picture_formats.py has their pixels.
#include <gmock/gmock.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "tests/support/rgb_image.h"
#include "trainer/data/image/image_decoder.h"

namespace rollcall::data {
namespace {

/// The seeds of tests/fuzz/decode_fuzz.cpp, without the bytes before the file.
std::map<std::string, std::vector<std::byte>> pictures_of_every_format() {
  std::map<std::string, std::vector<std::byte>> files;
  for (const auto& entry : std::filesystem::directory_iterator(ROLLCALL_DECODE_SEEDS)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto bytes = std::as_bytes(std::span(text)).subspan(6);
    files[entry.path().filename()] = {bytes.begin(), bytes.end()};
  }
  return files;
}

bool is_decoded(ImageDecoder& decoder, std::span<const std::byte> file) {
  const auto size = decoder.open({.bytes = file});
  if (!size || static_cast<long long>(size->width) * size->height > 1'000'000) {
    return false;
  }
  return decoder.decode({0, 0, size->width, size->height}).has_value();
}

TEST(PictureFormats, AreAllReadWithTheSizeOfTheUprightImage) {
  const auto files = pictures_of_every_format();
  ASSERT_GE(files.size(), 19U);
  ImageDecoder decoder({.apply_orientation = true});
  for (const auto& [name, file] : files) {
    const auto size = decoder.open({.bytes = file});
    ASSERT_TRUE(size) << name << ": " << size.error().message();
    ASSERT_TRUE(decoder.decode({0, 0, size->width, size->height})) << name;
  }
  for (const char* turned : {"webp_lossy", "avif", "tiff_planes"}) {
    const auto size = decoder.open({.bytes = files.at(turned)});
    ASSERT_TRUE(size);
    EXPECT_EQ(*size, (ImageSize{17, 24})) << turned;
    EXPECT_EQ(decoder.orientation(), std::string(turned) == "tiff_planes" ? 1 : 6)
        << "of TIFF it is a part of decoding";
  }
}

TEST(PictureFormats, TiffOrientationIsAlwaysAppliedAndTruncatedBmpIsRejected) {
  const auto files = pictures_of_every_format();
  ImageDecoder decoder;
  EXPECT_EQ(*decoder.open({.bytes = files.at("tiff_planes")}), (ImageSize{17, 24}));
  EXPECT_EQ(*decoder.open({.bytes = files.at("webp_lossy")}), (ImageSize{24, 17}));
  const auto& bmp = files.at("bmp_palette");
  EXPECT_TRUE(test::decode(bmp));
  EXPECT_FALSE(test::decode(std::span(bmp).first(bmp.size() - 1)));
}

TEST(PictureFormats, HugeImageIsRejectedByItsHeader) {
  auto file = pictures_of_every_format().at("bmp_palette");
  std::fill_n(file.begin() + 18, 8, std::byte{0x40});  // width and height
  const auto image = test::decode(file);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().reason, "has 1077952576 x 1077952576 pixels, more than 178956970");
}

TEST(PictureFormats, DamageGivesAnErrorOrPixelsWithoutOutput) {
  std::mt19937 random(3);
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  ImageDecoder decoder({.apply_orientation = true});
  for (const auto& [name, file] : pictures_of_every_format()) {
    int refused = 0;
    for (int trial = 0; trial < 250; ++trial) {
      auto broken = file;
      if (trial % 5 == 0) {
        broken.resize(random() % broken.size());
      }
      for (int i = 0; i < trial % 5 && !broken.empty(); ++i) {
        broken[random() % std::min<std::size_t>(broken.size(), trial % 2 == 0 ? 200 : broken.size())] ^=
            static_cast<std::byte>(1U << random() % 8);
      }
      refused += is_decoded(decoder, broken) ? 0 : 1;
    }
    EXPECT_GT(refused, 10) << name;
    ASSERT_TRUE(is_decoded(decoder, file)) << name << ": the decoder is good for the next file";
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace rollcall::data
