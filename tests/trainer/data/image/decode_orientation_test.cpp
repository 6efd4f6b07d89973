#include <gtest/gtest.h>
#include <array>

#include "tests/support/jpeg_coefficients.h"
#include "tests/support/jpeg_kinds.h"
#include "trainer/data/image/image_decoder.h"
#include "trainer/data/jpeg/markers.h"
#include "trainer/data/jpeg/repack.h"

namespace rollcall::data {
namespace {

constexpr DecodeOptions kUpright{.apply_orientation = true};

/// A JPEG of `width` x `height` pixels with an EXIF orientation.
std::vector<std::byte> turned_jpeg(int width, int height, int orientation, bool big_endian = false) {
  std::mt19937 random(4);
  return test::random_jpeg(
      {"", {.factors = {{2, 2}, {1, 1}, {1, 1}}, .exif = test::exif_with_orientation(orientation, big_endian)}},
      {width, height}, random);
}

/// EXIF's definition: where row 0 and column 0 of the stored picture are to be seen (Exif 2.32, 4.6.4).
test::RgbImage upright(const test::RgbImage& stored, int orientation) {
  const bool transposed = orientation >= 5;
  test::RgbImage out{transposed ? stored.height : stored.width, transposed ? stored.width : stored.height, {}};
  out.pixels.resize(stored.pixels.size());
  for (int row = 0; row < stored.height; ++row) {
    for (int column = 0; column < stored.width; ++column) {
      const int last_x = out.width - 1;
      const int last_y = out.height - 1;
      const std::array<std::array<int, 2>, 8> places{{{column, row},           // row 0 at the top, column 0 left
                                                      {last_x - column, row},  // top, right
                                                      {last_x - column, last_y - row},  // bottom, right
                                                      {column, last_y - row},           // bottom, left
                                                      {row, column},                    // left, top
                                                      {last_x - row, column},           // right, top
                                                      {last_x - row, last_y - column},  // right, bottom
                                                      {row, last_y - column}}};         // left, bottom
      const auto [x, y] = places.at(static_cast<std::size_t>(orientation) - 1);
      std::copy_n(stored.pixels.begin() + (row * stored.width + column) * 3, 3,
                  out.pixels.begin() + (y * out.width + x) * 3);
    }
  }
  return out;
}

void expect_crops_of(const EncodedImage& file, const test::RgbImage& expected, int crops) {
  ImageDecoder decoder(kUpright);
  std::mt19937 random(9);
  const auto size = decoder.open(file);
  ASSERT_TRUE(size) << size.error().message();
  ASSERT_EQ(*size, (ImageSize{expected.width, expected.height}));
  for (int i = 0; i < crops; ++i) {
    const Box box = test::random_box(*size, random);
    const auto view = decoder.decode(box);
    ASSERT_TRUE(view) << view.error().message();
    ASSERT_EQ(test::copy_of(*view, box).pixels, test::cut_out(expected, box).pixels) << test::describe(*size, box);
  }
}

TEST(Orientation, AllEightAreAppliedWithoutChangingPixels) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const ImageSize size : {ImageSize{71, 45}, {1, 9}, {30, 1}, {130, 200}}) {
      const auto file = turned_jpeg(size.width, size.height, orientation, orientation % 2 == 0);
      const test::RgbImage expected = upright(test::plainly_decoded(file), orientation);
      expect_crops_of({.bytes = file}, expected, 40);
      const auto repacked = repack(file);
      ASSERT_TRUE(repacked);
      expect_crops_of({.bytes = repacked->jpeg, .tiling = repacked->tiling()}, expected, 40);
    }
  }
}

TEST(Orientation, IsIgnoredByDefault) {
  const auto file = turned_jpeg(40, 20, 6);
  ImageDecoder decoder;
  EXPECT_EQ(*decoder.open({.bytes = file}), (ImageSize{40, 20}));
  EXPECT_EQ(test::copy_of(*decoder.decode({0, 0, 40, 20}), {0, 0, 40, 20}).pixels, test::plainly_decoded(file).pixels);
}

TEST(Orientation, IsAppliedToHalfSizeDecodes) {
  const auto file = turned_jpeg(61, 45, 8);
  const test::RgbImage expected = upright(test::plainly_decoded(file, 4), 8);
  ImageDecoder decoder({.apply_orientation = true, .dct_scaling = true});
  ASSERT_TRUE(decoder.open({.bytes = file}));
  const Box half{3, 5, 9, 20};
  const auto view = decoder.decode({6, 10, 18, 40}, 2);
  ASSERT_TRUE(view);
  EXPECT_EQ(test::copy_of(*view, half).pixels, test::cut_out(expected, half).pixels);
}

TEST(Exif, OrientationIsReadInBothByteOrders) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    EXPECT_EQ(exif_orientation(turned_jpeg(8, 8, orientation, false)), orientation);
    EXPECT_EQ(exif_orientation(turned_jpeg(8, 8, orientation, true)), orientation);
  }
}

TEST(Exif, OrientationIsReadAfterForeignBytesLikeLibjpeg) {
  std::vector<std::byte> file = turned_jpeg(40, 30, 6);
  const std::array foreign{std::byte{0}, std::byte{7}, std::byte{0xff}, std::byte{0}, std::byte{9}};
  file.insert(file.begin() + 2, foreign.begin(), foreign.end());
  EXPECT_EQ(exif_orientation(file), 6);
  const auto repacked = repack(file);
  ASSERT_TRUE(repacked) << repacked.error().message();
  EXPECT_EQ(repacked->orientation, 6);
}

TEST(Exif, InvalidOrientationsAreIgnored) {
  EXPECT_EQ(exif_orientation({}), 1);
  EXPECT_EQ(exif_orientation(test::make_jpeg(test::smooth_pixels(8, 8, 1), 8, 8)), 1);
  EXPECT_EQ(exif_orientation(turned_jpeg(8, 8, 0)), 1);
  EXPECT_EQ(exif_orientation(turned_jpeg(8, 8, 9)), 1);
  EXPECT_EQ(exif_orientation(turned_jpeg(8, 8, 65535)), 1);
}

TEST(Exif, TruncatedOrCorruptBlocksNeverCrash) {
  const auto file = turned_jpeg(8, 8, 6);
  for (std::size_t bytes = 0; bytes < 120; ++bytes) {
    const std::vector<std::byte> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(bytes));
    const int orientation = exif_orientation(cut);
    EXPECT_TRUE(orientation == 1 || orientation == 6) << bytes;
  }
  std::mt19937 random(3);
  for (int trial = 0; trial < 5000; ++trial) {
    auto broken = file;
    for (int i = 0; i < 3; ++i) {
      broken[random() % 100] = static_cast<std::byte>(random());
    }
    const int orientation = exif_orientation(broken);
    EXPECT_TRUE(orientation >= 1 && orientation <= 8);
  }
}

}  // namespace
}  // namespace rollcall::data
