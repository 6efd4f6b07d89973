#include "trainer/data/jpeg/repack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

#include "tests/support/filled_tiles.h"
#include "tests/support/jpeg_coefficients.h"
#include "tests/support/jpeg_kinds.h"

namespace rollcall::data {
namespace {

using testing::HasSubstr;

std::vector<std::byte> plain_jpeg(int width, int height, const test::JpegStyle& style = {}) {
  return test::make_jpeg(test::smooth_pixels(width, height, 5), width, height, style);
}

TEST(Repack, KeepsTheCoefficientsOfEveryKindOfFile) {
  std::mt19937 random(11);
  for (const test::JpegKind& kind : test::repackable_kinds()) {
    for (int i = 0; i < 12; ++i) {
      const ImageSize size = test::random_size(random);
      const auto file = test::random_jpeg(kind, size, random);
      const auto repacked = repack(file);
      ASSERT_TRUE(repacked) << kind.name << ": " << repacked.error().message();
      EXPECT_EQ(repacked->size, size);
      ASSERT_EQ(test::shared_coefficients(repacked->jpeg, file), test::coefficients(file))
          << kind.name << " " << size.width << " x " << size.height;
    }
  }
}

TEST(Repack, ReturnsTheLengthOfEveryTile) {
  const auto file = plain_jpeg(250, 50, {.factors = {{2, 2}, {1, 1}, {1, 1}}});
  const auto repacked = repack(file);
  ASSERT_TRUE(repacked);
  ASSERT_EQ(repacked->tile_bytes.size(), 4U * 4U);  // 64 x 16 pixels each
  const auto sum = std::accumulate(repacked->tile_bytes.begin(), repacked->tile_bytes.end(), std::size_t{0});
  ASSERT_LT(sum, repacked->jpeg.size());
  std::size_t at = repacked->jpeg.size() - sum;
  unsigned restart = 0;
  for (const std::uint16_t length : repacked->tile_bytes) {
    at += length;
    const bool last = at == repacked->jpeg.size();
    EXPECT_EQ(repacked->jpeg[at - 2], std::byte{0xff});
    EXPECT_EQ(std::to_integer<unsigned>(repacked->jpeg[at - 1]), last ? 0xd9U : 0xd0U + restart++ % 8);
  }
}

/// What another program gets when it decodes the complete file and crops it.
test::RgbImage cropped(const Repacked& repacked) {
  return test::cut_out(test::plainly_decoded(repacked.jpeg), {0, 0, repacked.size.width, repacked.size.height});
}

class RepackEdges : public testing::TestWithParam<test::JpegKind> {};

INSTANTIATE_TEST_SUITE_P(OfEveryKind, RepackEdges, testing::ValuesIn(test::repackable_kinds()),
                         [](const auto& kind) { return test::identifier(kind.param.name); });

TEST_P(RepackEdges, MatchTheOriginalInEveryDecoder) {
  std::mt19937 random(3);
  constexpr int kMcu = 32;  // the widest; all sizes modulo it
  for (const int more : {0, 5 * kMcu}) {
    for (int width = 1; width <= 3 * kMcu; ++width) {
      const ImageSize size{more + width, 1 + width * 5 % kMcu};
      const auto file = test::random_jpeg(GetParam(), size, random);
      const auto repacked = repack(file);
      ASSERT_TRUE(repacked) << size.width;
      ASSERT_EQ(cropped(*repacked).pixels, test::plainly_decoded(file).pixels) << size.width << " x " << size.height;
    }
  }
}

TEST(RepackEdges, DifferedInFormatBefore11) {
  std::mt19937 random(3);
  const test::JpegKind kind{"", {.factors = {{2, 1}, {1, 1}, {1, 1}}}};
  const auto file = test::random_jpeg(kind, {144, 40}, random);
  EXPECT_NE(cropped(test::repacked_before_1_1(file)).pixels, test::plainly_decoded(file).pixels);
  EXPECT_EQ(cropped(*repack(file)).pixels, test::plainly_decoded(file).pixels);
}

/// Columns of tiles that a picture with 4:2:0 or 4:4:4 chroma is cut into.
std::size_t tile_columns(int width, const std::array<int, 2>& factors) {
  const auto repacked = repack(plain_jpeg(width, 8, {.factors = {factors, {1, 1}, {1, 1}}}));
  return repacked ? repacked->tile_bytes.size() : 0;
}

TEST(Repack, ChoosesTilesThatDivideRowsWithSubsampledChroma) {
  for (const auto& [mcus, columns] : std::vector<std::pair<int, std::size_t>>{
           {1, 1}, {3, 1}, {4, 1}, {8, 2}, {9, 3}, {10, 2}, {13, 1}, {14, 2}, {17, 17}, {24, 6}, {25, 5}, {32, 8}}) {
    EXPECT_EQ(tile_columns(mcus * 16, {2, 2}), columns) << mcus;
  }
  EXPECT_EQ(tile_columns(17 * 8, {1, 1}), 3U);
}

TEST(Repack, KeepsTheTrueWidthWithSubsampledChroma) {
  for (int width = 1; width < 300; width += 7) {
    const auto repacked = repack(plain_jpeg(width, 20, {.factors = {{2, 2}, {1, 1}, {1, 1}}}));
    ASSERT_TRUE(repacked);
    EXPECT_EQ(test::plainly_decoded(repacked->jpeg).width, width);
  }
}

TEST(Repack, DropsMetadataExceptTheOrientation) {
  std::vector<std::byte> exif = test::exif_with_orientation(6, true);
  exif.resize(5000);
  const auto file = plain_jpeg(40, 40, {.exif = exif});
  const auto repacked = repack(file);
  ASSERT_TRUE(repacked);
  EXPECT_EQ(repacked->orientation, 6);
  EXPECT_LT(repacked->jpeg.size() + 4000, file.size());
}

TEST(Repack, IsIdempotent) {
  const auto once = repack(plain_jpeg(128, 64));
  ASSERT_TRUE(once);
  const auto twice = repack(once->jpeg);
  ASSERT_TRUE(twice);
  EXPECT_EQ(once->jpeg, twice->jpeg);
  EXPECT_EQ(once->tile_bytes, twice->tile_bytes);
}

void expect_refused(std::span<const std::byte> file, const std::string& reason) {
  const auto repacked = repack(file);
  ASSERT_FALSE(repacked);
  EXPECT_EQ(repacked.error().kind, ErrorKind::BadData);
  EXPECT_THAT(repacked.error().reason, HasSubstr(reason));
}

TEST(Repack, RejectsFilesItCannotReproduceExactly) {
  expect_refused({}, "JPEG");
  expect_refused(plain_jpeg(30, 30, {.arithmetic = true}), "arithmetic");
  std::mt19937 random(1);
  for (const test::JpegKind& kind : test::jpeg_kinds()) {
    if (kind.style.pixels == JCS_CMYK) {
      expect_refused(test::random_jpeg(kind, {20, 20}, random), "greyscale");
    }
  }
  auto cut = plain_jpeg(30, 30);
  cut.resize(cut.size() - 20);
  expect_refused(cut, "Premature end");
  expect_refused(test::without_last_scans(plain_jpeg(60, 60, {.progressive = true}), 3), "last scans");
}

TEST(Repack, RejectsTruncationAndNeverCrashesOnDamage) {
  std::mt19937 random(7);
  const auto file = plain_jpeg(60, 45, {.factors = {{2, 2}, {1, 1}, {1, 1}}, .progressive = true});
  for (std::size_t bytes = 0; bytes + 2 < file.size(); bytes += 5) {
    EXPECT_FALSE(repack(std::span(file).first(bytes))) << bytes;
  }
  for (int trial = 0; trial < 500; ++trial) {
    auto broken = file;
    for (int i = 0; i < 3; ++i) {
      broken[random() % broken.size()] = static_cast<std::byte>(random());
    }
    const auto repacked = repack(broken);
    EXPECT_TRUE(repacked || repacked.error().kind == ErrorKind::BadData);
  }
}

}  // namespace
}  // namespace rollcall::data
