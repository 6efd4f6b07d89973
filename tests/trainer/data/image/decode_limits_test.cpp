// Malicious files: absurd sizes, thousands of scans, missing scans, foreign content.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string_view>

#include "tests/support/jpeg_coefficients.h"
#include "tests/support/jpeg_kinds.h"
#include "trainer/data/image/image_decoder.h"

namespace rollcall::data {
namespace {

using testing::HasSubstr;

const test::JpegStyle kProgressive{.factors = {{2, 2}, {1, 1}, {1, 1}}, .progressive = true};

std::vector<std::byte> jpeg_of(int width, int height, const test::JpegStyle& style) {
  std::mt19937 random(6);
  return test::random_jpeg({"", style}, {width, height}, random);
}

std::string reason_of(std::span<const std::byte> file) {
  const auto image = test::decode(file);
  return image ? "" : image.error().reason;
}

/// Writes other numbers behind a marker's length and precision.
void claim_size(std::vector<std::byte>& jpeg, std::uint8_t frame_marker, int width, int height) {
  const std::array marker{std::byte{0xff}, static_cast<std::byte>(frame_marker)};
  auto at = std::search(jpeg.begin(), jpeg.end(), marker.begin(), marker.end()) + 5;
  for (const int number : {height, width}) {
    *at++ = static_cast<std::byte>(number >> 8);
    *at++ = static_cast<std::byte>(number);
  }
}

TEST(DecodeLimits, RejectsDecompressionBombsByTheirHeader) {
  auto jpeg = jpeg_of(16, 16, {});
  claim_size(jpeg, 0xc0, 60000, 60000);
  EXPECT_EQ(reason_of(jpeg), "has 60000 x 60000 pixels, more than 178956970");
  claim_size(jpeg, 0xc0, 65535, 65535);
  EXPECT_THAT(reason_of(jpeg), HasSubstr("Maximum supported image dimension"));
  claim_size(jpeg, 0xc0, 0, 16);
  EXPECT_THAT(reason_of(jpeg), HasSubstr("Empty JPEG image"));
}

TEST(DecodeLimits, CropOfAHugeImageUsesMemoryOnlyForTheCrop) {
  auto jpeg = jpeg_of(16, 16, {});
  claim_size(jpeg, 0xc0, 13000, 13000);  // the data ends after the first rows
  ImageDecoder decoder;
  ASSERT_TRUE(decoder.open({.bytes = jpeg}));
  const auto view = decoder.decode({0, 0, 8, 8});
  EXPECT_FALSE(view);
}

TEST(DecodeLimits, RejectsThousandsOfScans) {
  const auto file = jpeg_of(40, 40, {.one_scan_a_component = true});
  const std::array scan_start{std::byte{0xff}, std::byte{0xda}};
  const auto last = std::find_end(file.begin(), file.end(), scan_start.begin(), scan_start.end());
  const std::vector<std::byte> scan(last, file.end() - 2);
  const auto with_scans_added = [&](int count) {
    std::vector<std::byte> bomb(file.begin(), file.end() - 2);
    for (int i = 0; i < count; ++i) {
      bomb.insert(bomb.end(), scan.begin(), scan.end());
    }
    bomb.insert(bomb.end(), {std::byte{0xff}, std::byte{0xd9}});
    return bomb;
  };
  EXPECT_EQ(reason_of(with_scans_added(20)), "");
  EXPECT_THAT(reason_of(with_scans_added(2000)), HasSubstr("More than 100 scans"));
}

TEST(DecodeLimits, IncompleteProgressiveImageIsSmoothedLikeLibjpeg) {
  for (const int missing : {1, 3, 5, 8}) {
    const auto file = test::without_last_scans(jpeg_of(90, 70, kProgressive), missing);
    const test::RgbImage whole = test::plainly_decoded(file);
    ImageDecoder decoder;
    ASSERT_TRUE(decoder.open({.bytes = file}));
    std::mt19937 random(5);
    for (int i = 0; i < 50; ++i) {
      const Box box = test::random_box({90, 70}, random);
      const auto view = decoder.decode(box);
      ASSERT_TRUE(view) << view.error().message();
      ASSERT_EQ(test::copy_of(*view, box).pixels, test::cut_out(whole, box).pixels) << missing;
    }
  }
}

TEST(DecodeLimits, DamageGivesAnErrorOrPixelsWithoutOutput) {
  std::mt19937 random(8);
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  int refused = 0;
  for (const test::JpegKind& kind : test::jpeg_kinds()) {
    const auto file = test::random_jpeg(kind, {50, 41}, random);
    ImageDecoder decoder({.apply_orientation = true});
    for (int trial = 0; trial < 250; ++trial) {
      auto broken = file;
      if (trial % 5 == 0) {
        broken.resize(random() % broken.size());
      }
      for (int i = 0; i < trial % 5 && !broken.empty(); ++i) {
        broken[random() % broken.size()] ^= static_cast<std::byte>(1U << random() % 8);
      }
      const auto size = decoder.open({.bytes = broken});
      if (!size || static_cast<long long>(size->width) * size->height > 1'000'000) {
        ++refused;
        continue;
      }
      refused += decoder.decode(test::random_box(*size, random)) ? 0 : 1;
    }
    ASSERT_TRUE(decoder.open({.bytes = file})) << "the decoder is good for the next file";
    ASSERT_TRUE(decoder.decode({0, 0, 50, 41}));
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_GT(refused, 1500);
}

TEST(DecodeLimits, MissingTablesAreNotTakenFromThePreviousFile) {
  const auto good = jpeg_of(40, 40, {});
  for (const int marker : {0xdb, 0xc4}) {  // quantisation; Huffman, for which libjpeg knows the usual ones
    auto file = good;
    const std::array segment{std::byte{0xff}, static_cast<std::byte>(marker)};
    for (;;) {
      const auto at = std::search(file.begin(), file.end(), segment.begin(), segment.end());
      if (at == file.end()) {
        break;
      }
      file.erase(at, at + 2 + (std::to_integer<int>(at[2]) << 8 | std::to_integer<int>(at[3])));
    }
    ImageDecoder decoder;
    const auto before = jpeg_of(40, 40, {.factors = {{2, 2}, {1, 1}, {1, 1}}, .quality = 30});
    ASSERT_TRUE(decoder.open({.bytes = before}));
    ASSERT_TRUE(decoder.decode({0, 0, 40, 40}));
    const auto opened = decoder.open({.bytes = file});
    const auto view = opened ? decoder.decode({0, 0, 40, 40}) : Result<PixelView>(opened.error());
    ASSERT_EQ(view.has_value(), marker == 0xc4);
    if (view) {
      EXPECT_EQ(test::copy_of(*view, {0, 0, 40, 40}).pixels, test::plainly_decoded(good).pixels);
    }
  }
}

TEST(DecodeLimits, RejectsForeignContentWithTheReason) {
  constexpr std::string_view kPage = "<!DOCTYPE html><html><body>404</body></html>";
  EXPECT_EQ(reason_of({}), "is empty");
  EXPECT_EQ(reason_of(std::as_bytes(std::span(kPage))),
            "is not an image in a supported format, but text in HTML or XML");
  auto arithmetic = jpeg_of(20, 20, {});
  arithmetic.resize(3);
  EXPECT_THAT(reason_of(arithmetic), HasSubstr("damaged JPEG"));
}

}  // namespace
}  // namespace rollcall::data
