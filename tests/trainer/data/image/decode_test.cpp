#include "trainer/data/image/image_decoder.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <array>
#include <cstdlib>

#include "tests/support/rgb_image.h"
#include "tests/support/test_images.h"

namespace rollcall::data {
namespace {

using test::decode;
using test::make_jpeg;
using test::make_png;
using test::smooth_pixels;

constexpr int kWidth = 37;
constexpr int kHeight = 23;

int largest_difference(const test::RgbImage& image, const std::vector<std::uint8_t>& expected) {
  int largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(image.pixels[i] - expected[i]));
  }
  return largest;
}

TEST(Decode, JpegRestoresTheCompressedPixels) {
  using Factors = std::vector<std::array<int, 2>>;
  for (const auto luma : std::vector<std::array<int, 2>>{{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}}) {
    for (const bool progressive : {false, true}) {
      const auto pixels = smooth_pixels(kWidth, kHeight, 1);
      const auto image = decode(
          make_jpeg(pixels, kWidth, kHeight, {.factors = Factors{luma, {1, 1}, {1, 1}}, .progressive = progressive}));
      ASSERT_TRUE(image) << image.error().message();
      EXPECT_EQ(image->width, kWidth);
      EXPECT_EQ(image->height, kHeight);
      EXPECT_LE(largest_difference(*image, pixels), luma[0] * luma[1] == 1 ? 12 : 60);
    }
  }
}

TEST(Decode, GreyscaleJpegIsRepeatedInAllThreeChannels) {
  const auto grey = smooth_pixels(kWidth, kHeight, 2, 1);
  const auto image = decode(make_jpeg(grey, kWidth, kHeight, {.pixels = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE}));
  ASSERT_TRUE(image) << image.error().message();
  std::vector<std::uint8_t> expected;
  for (const std::uint8_t level : grey) {
    expected.insert(expected.end(), 3, level);
  }
  EXPECT_LE(largest_difference(*image, expected), 12);
  EXPECT_EQ(image->pixels[0], image->pixels[2]);
}

// Adobe stores 255 - ink: white paper is (255, 255, 255, 255); cyan lowers the first sample, black the last.
TEST(Decode, CmykJpegIsConvertedToRgb) {
  const std::vector<std::uint8_t> one_pixel{51, 255, 204, 128};
  std::vector<std::uint8_t> inks;
  for (int i = 0; i < 16 * 16; ++i) {
    inks.insert(inks.end(), one_pixel.begin(), one_pixel.end());
  }
  const auto image = decode(make_jpeg(inks, 16, 16, {.pixels = JCS_CMYK, .stored = JCS_YCCK}));
  ASSERT_TRUE(image) << image.error().message();
  EXPECT_NEAR(image->pixels[0], 51 * 128 / 255, 3);
  EXPECT_NEAR(image->pixels[1], 128, 3);
  EXPECT_NEAR(image->pixels[2], 204 * 128 / 255, 3);
}

TEST(Decode, PngOfEveryKindGivesRgbWithoutLoss) {
  const auto rgb = smooth_pixels(kWidth, kHeight, 3);
  const auto grey = smooth_pixels(kWidth, kHeight, 3, 1);
  const auto colour = decode(make_png(rgb.data(), kWidth, kHeight));
  ASSERT_TRUE(colour) << colour.error().message();
  EXPECT_EQ(largest_difference(*colour, rgb), 0);

  const auto plain = decode(make_png(grey.data(), kWidth, kHeight, PNG_FORMAT_GRAY));
  ASSERT_TRUE(plain) << plain.error().message();
  EXPECT_EQ(plain->pixels[0], grey[0]);
  EXPECT_EQ(plain->pixels[5], grey[1]);

  const std::vector<std::uint8_t> map{10, 20, 30, 200, 100, 50};
  const std::vector<std::uint8_t> indices{0, 1, 1, 0};
  const auto palette = decode(make_png(indices.data(), 2, 2, PNG_FORMAT_RGB_COLORMAP, map.data(), 2));
  ASSERT_TRUE(palette) << palette.error().message();
  EXPECT_EQ(largest_difference(*palette, {10, 20, 30, 200, 100, 50, 200, 100, 50, 10, 20, 30}), 0);
}

TEST(Decode, SixteenBitPngIsReducedTo8Bits) {
  std::vector<std::uint16_t> levels;
  for (unsigned i = 0; i < 256; ++i) {
    levels.insert(levels.end(), 3, static_cast<std::uint16_t>(i * 257));
  }
  // libpng's writer takes 16 bits for linear light and says so in gAMA, which changes nothing.
  const auto file = test::make_png(levels.data(), 16, 16, PNG_FORMAT_LINEAR_RGB);
  const auto image = decode(file);
  ASSERT_TRUE(image) << image.error().message();
  EXPECT_EQ(image->width, 16);
  for (std::size_t i = 0; i < image->pixels.size(); ++i) {
    ASSERT_EQ(image->pixels[i], i / 3) << "as written, the upper 8 bits";
  }
}

TEST(Decode, SixteenBitPngWithoutGammaIsNotLinearised) {
  std::vector<std::uint16_t> levels;
  for (unsigned i = 0; i < 256; ++i) {
    levels.insert(levels.end(), 3, static_cast<std::uint16_t>(i * 257));
  }
  auto file = test::make_png(levels.data(), 16, 16, PNG_FORMAT_LINEAR_RGB);
  const std::array name{std::byte{'g'}, std::byte{'A'}, std::byte{'M'}, std::byte{'A'}};
  const auto gamma = std::search(file.begin(), file.end(), name.begin(), name.end());
  ASSERT_NE(gamma, file.end());
  file.erase(gamma - 4, gamma + 4 + 4 + 4);  // length, name, content, checksum
  const auto image = decode(file);
  ASSERT_TRUE(image) << image.error().message();
  for (std::size_t i = 0; i < image->pixels.size(); ++i) {
    ASSERT_EQ(image->pixels[i], i / 3) << "as written, to the upper 8 bits";
  }
}

TEST(Decode, OneDecoderReadsFilesOfAlternatingFormats) {
  ImageDecoder decoder;
  for (int i = 0; i < 6; ++i) {
    const int width = 20 + 7 * (i % 3);
    const auto pixels = smooth_pixels(width, 15, static_cast<unsigned>(i));
    const auto file = i % 2 == 0 ? make_png(pixels.data(), width, 15) : make_jpeg(pixels, width, 15);
    ASSERT_TRUE(decoder.open({.bytes = file}));
    for (int again = 0; again < 2; ++again) {
      const Box box{3, 2, 10, 9};
      const auto view = decoder.decode(box);
      ASSERT_TRUE(view) << view.error().message();
      const auto crop = test::copy_of(*view, box);
      EXPECT_NEAR(crop.pixels[0], pixels[static_cast<std::size_t>(2 * width + 3) * 3], i % 2 == 0 ? 0 : 12);
    }
    ASSERT_FALSE(decoder.open({.bytes = std::span(file).first(10)}));
    EXPECT_FALSE(decoder.decode({0, 0, 1, 1})) << "nothing is open";
  }
}

TEST(Decode, AlphaOfAPngIsDroppedNotBlended) {
  const std::vector<std::uint8_t> rgba{200, 100, 50, 0, 10, 20, 30, 128};
  const auto image = decode(make_png(rgba.data(), 2, 1, PNG_FORMAT_RGBA));
  ASSERT_TRUE(image) << image.error().message();
  EXPECT_EQ(largest_difference(*image, {200, 100, 50, 10, 20, 30}), 0);
}

TEST(Decode, FormatIsDetectedByContent) {
  const auto pixels = smooth_pixels(kWidth, kHeight, 4);
  EXPECT_TRUE(decode(make_png(pixels.data(), kWidth, kHeight)));
  EXPECT_TRUE(decode(make_jpeg(pixels, kWidth, kHeight)));
}

void expect_bad_data(std::span<const std::byte> file, const std::string& name) {
  const auto image = decode(file);
  ASSERT_FALSE(image) << name << ", " << file.size() << " bytes";
  EXPECT_EQ(image.error().kind, ErrorKind::BadData);
}

TEST(Decode, EveryTruncationIsAnError) {
  const auto pixels = smooth_pixels(kWidth, kHeight, 5);
  const auto jpeg = make_jpeg(pixels, kWidth, kHeight);
  for (std::size_t size = 0; size + 2 < jpeg.size(); size += 7) {  // the last two bytes only say "end"
    expect_bad_data(std::span(jpeg).first(size), "cut.jpg");
  }
  const auto png = make_png(pixels.data(), kWidth, kHeight);
  for (std::size_t size = 0; size + 16 < png.size(); size += 7) {  // the last 16: a checksum's part and IEND
    expect_bad_data(std::span(png).first(size), "cut.png");
  }
}

TEST(Decode, CorruptContentNeverCrashesAndPngChecksumsDetectIt) {
  const auto pixels = smooth_pixels(kWidth, kHeight, 6);
  std::mt19937 random(7);
  const auto png = make_png(pixels.data(), kWidth, kHeight);
  const auto jpeg = make_jpeg(pixels, kWidth, kHeight);
  for (int trial = 0; trial < 300; ++trial) {
    auto broken = jpeg;
    for (int i = 0; i < 5; ++i) {
      broken[random() % broken.size()] = static_cast<std::byte>(random());
    }
    const auto image = decode(broken);
    EXPECT_TRUE(image || image.error().kind == ErrorKind::BadData);
  }
  auto broken = png;
  broken[png.size() / 2] ^= std::byte{0xff};
  expect_bad_data(broken, "broken.png");
}

TEST(Decode, ForeignAndEmptyFilesAreRejected) {
  const std::string text = "GIF89a and so on";
  expect_bad_data(std::as_bytes(std::span(text)), "picture.gif");
  EXPECT_NE(decode(std::as_bytes(std::span(text))).error().reason.find("is a damaged GIF file"), std::string::npos);
  expect_bad_data({}, "empty.png");
}

TEST(Decode, GiganticSizeInTheHeaderIsRejected) {
  auto jpeg = make_jpeg(smooth_pixels(kWidth, kHeight, 8), kWidth, kHeight);
  for (std::size_t i = 0; i + 9 < jpeg.size(); ++i) {
    if (jpeg[i] == std::byte{0xff} && jpeg[i + 1] == std::byte{0xc0}) {  // SOF0: length, precision, height, width
      std::fill_n(jpeg.begin() + static_cast<std::ptrdiff_t>(i) + 5, 4, std::byte{0xf0});
    }
  }
  expect_bad_data(jpeg, "bomb.jpg");
}

}  // namespace
}  // namespace rollcall::data
