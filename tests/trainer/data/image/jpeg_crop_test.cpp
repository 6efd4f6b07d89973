#include <gtest/gtest.h>
#include <algorithm>
#include <array>
#include <random>

#include "tests/support/jpeg_kinds.h"
#include "trainer/data/image/image_decoder.h"

namespace rollcall::data {
namespace {

using test::JpegKind;

/// With our entropy decoder, where it supports the file, and with libjpeg's only.
std::array<ImageDecoder, 2> both_decoders() {
  return {ImageDecoder({.dct_scaling = true}), ImageDecoder({.dct_scaling = true, .own_entropy_decoder = false})};
}

class JpegCrop : public testing::TestWithParam<JpegKind> {
 protected:
  std::mt19937 random_{static_cast<unsigned>(std::hash<std::string>{}(GetParam().name))};
};

/// The kinds that have something to do with how coded data is cut up and which tables it takes.
std::vector<JpegKind> kinds() {
  std::vector<JpegKind> all = test::jpeg_kinds();
  const auto add_with_restarts = [&](const std::string& name, int interval) {
    test::JpegStyle style =
        std::find_if(all.begin(), all.end(), [&](const JpegKind& kind) { return kind.name == name; })->style;
    style.restart_interval = interval;
    all.push_back({name + " with restarts", style});
  };
  add_with_restarts("grey", 7);
  add_with_restarts("grey 2x2", 2);
  add_with_restarts("CMYK", 1);
  add_with_restarts("4:1:0", 100);
  add_with_restarts("uneven chroma", 3);
  return all;
}

INSTANTIATE_TEST_SUITE_P(OfEveryKind, JpegCrop, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return test::identifier(kind.param.name); });

TEST_P(JpegCrop, HasThePixelsOfTheFullDecode) {
  constexpr int kFiles = 10;
  constexpr int kCropsOfAFile = 14;
  auto decoders = both_decoders();
  for (int i = 0; i < kFiles; ++i) {
    const ImageSize size = test::random_size(random_);
    const auto file = test::random_jpeg(GetParam(), size, random_);
    const test::RgbImage whole = test::plainly_decoded(file);
    for (ImageDecoder& decoder : decoders) {
      const auto opened = decoder.open({.bytes = file});
      ASSERT_TRUE(opened) << opened.error().message();
      ASSERT_EQ(*opened, size);
      for (int k = 0; k < kCropsOfAFile; ++k) {
        const Box box = k == 0 ? Box{0, 0, size.width, size.height} : test::random_box(size, random_);
        const auto view = decoder.decode(box);
        ASSERT_TRUE(view) << view.error().message();
        ASSERT_EQ(test::copy_of(*view, box).pixels, test::cut_out(whole, box).pixels) << test::describe(size, box);
      }
    }
  }
}

TEST_P(JpegCrop, AtHalfSizeHasThePixelsOfTheFullHalfSizeDecode) {
  auto decoders = both_decoders();
  for (int i = 0; i < 12; ++i) {
    const ImageSize size = test::random_size(random_);
    const auto file = test::random_jpeg(GetParam(), size, random_);
    const test::RgbImage whole = test::plainly_decoded(file, 4);
    for (ImageDecoder& decoder : decoders) {
      ASSERT_TRUE(decoder.open({.bytes = file}));
      for (int k = 0; k < 12; ++k) {
        const Box half = test::random_box({whole.width, whole.height}, random_);
        const Box box{2 * half.left, 2 * half.top, std::min(2 * half.width, size.width - 2 * half.left),
                      std::min(2 * half.height, size.height - 2 * half.top)};
        const auto view = decoder.decode(box, 2);
        ASSERT_TRUE(view) << view.error().message();
        ASSERT_EQ(test::copy_of(*view, half).pixels, test::cut_out(whole, half).pixels) << test::describe(size, box);
      }
    }
  }
}

TEST(JpegReduction, IsUsedOnlyIfEnabledAndTheImageStaysLargeEnough) {
  const auto file = test::make_jpeg(test::smooth_pixels(90, 70, 1), 90, 70);
  ImageDecoder plain;
  ImageDecoder scaling(DecodeOptions{.dct_scaling = true});
  ASSERT_TRUE(plain.open({.bytes = file}));
  ASSERT_TRUE(scaling.open({.bytes = file}));
  EXPECT_EQ(plain.reduction_for({0, 0, 80, 60}, {20, 20}), 1);
  EXPECT_EQ(scaling.reduction_for({0, 0, 80, 60}, {20, 20}), 2);
  EXPECT_EQ(scaling.reduction_for({0, 0, 80, 60}, {40, 30}), 2);
  EXPECT_EQ(scaling.reduction_for({0, 0, 79, 60}, {40, 30}), 1);
  EXPECT_EQ(scaling.reduction_for({0, 0, 80, 59}, {40, 30}), 1);
}

}  // namespace
}  // namespace rollcall::data
