#include "trainer/data/transforms/policy.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <vector>

#include "tests/support/uint8_image.h"
#include "trainer/data/transforms/operations.h"

namespace rollcall::data {
namespace {

using test::OwnedUInt8Image;
using Rgb = std::vector<int>;

/// One pixel of the given colour.
OwnedUInt8Image pixel_of(std::uint8_t r, std::uint8_t g, std::uint8_t b) {
  OwnedUInt8Image image(1, 1);
  image.rgbx = {r, g, b, 0};
  return image;
}

TEST(ToneCurves, BrightnessScalesAndClamps) {
  const ToneCurve curve = ToneCurve::brightness(1.5);
  EXPECT_EQ(curve.channels[0][0], 0);
  EXPECT_EQ(curve.channels[1][101], 151);  // 151.5, its fraction dropped
  EXPECT_EQ(curve.channels[2][170], 255);
  EXPECT_EQ(curve.channels[2][255], 255);
  EXPECT_EQ(ToneCurve::brightness(0).channels[0][255], 0);
}

TEST(ToneCurves, ContrastOfZeroIsTheMeanGrey) {
  OwnedUInt8Image image = OwnedUInt8Image::random(31, 17, 1);
  const int grey = static_cast<int>(mean_grey(image.view()));
  ToneCurve::contrast(image.view(), 0).apply(image.view());
  EXPECT_EQ(image.rgb(0, 0), Rgb({grey, grey, grey}));
  EXPECT_EQ(image.rgb(30, 16), Rgb({grey, grey, grey}));
}

TEST(ToneCurves, PosterizeKeepsTheUpperBits) {
  const ToneCurve curve = ToneCurve::posterize(3);
  EXPECT_EQ(curve.channels[0][0b10111111], 0b10100000);
  EXPECT_EQ(ToneCurve::posterize(8).channels[0][77], 77);
  EXPECT_EQ(ToneCurve::posterize(0).channels[0][255], 0);
}

TEST(ToneCurves, SolarizeInvertsFromTheThresholdOn) {
  const ToneCurve curve = ToneCurve::solarize(128);
  EXPECT_EQ(curve.channels[1][127], 127);
  EXPECT_EQ(curve.channels[1][128], 127);
  EXPECT_EQ(curve.channels[1][255], 0);
  EXPECT_EQ(ToneCurve::solarize(255).channels[1][254], 254);
}

TEST(ToneCurves, AutocontrastStretchesEachNonConstantChannel) {
  OwnedUInt8Image image(2, 1);
  image.rgbx = {100, 7, 0, 0, 150, 7, 255, 0};
  ToneCurve::autocontrast(image.view()).apply(image.view());
  EXPECT_EQ(image.rgb(0, 0), Rgb({0, 7, 0}));
  EXPECT_EQ(image.rgb(1, 0), Rgb({254, 7, 255}));  // 50 / (50 * (1 / 255)) in float32, its fraction dropped
}

TEST(ToneCurves, EqualizeSpreadsLevelsEvenly) {
  OwnedUInt8Image image(64, 64);
  for (std::size_t i = 0; i < image.rgbx.size(); ++i) {
    image.rgbx[i] = static_cast<std::uint8_t>(100 + (i / 4) % 16);  // 16 levels, equally often
  }
  ToneCurve::equalize(image.view()).apply(image.view());
  for (int x = 0; x < 16; ++x) {
    EXPECT_NEAR(image.rgb(x, 0)[0], 255 * x / 15, 2);
  }
}

TEST(ToneCurves, EqualizeLeavesAConstantImage) {
  OwnedUInt8Image image = pixel_of(3, 99, 200);
  ToneCurve::equalize(image.view()).apply(image.view());
  EXPECT_EQ(image.rgb(0, 0), Rgb({3, 99, 200}));
}

TEST(Saturation, ZeroGivesGreyAndOneIsIdentity) {
  OwnedUInt8Image image = pixel_of(200, 100, 50);
  adjust_saturation(image.view(), 1);
  EXPECT_EQ(image.rgb(0, 0), Rgb({200, 100, 50}));
  adjust_saturation(image.view(), 0);
  EXPECT_EQ(image.rgb(0, 0), Rgb({124, 124, 124}));  // 0.2989 * 200 + 0.587 * 100 + 0.114 * 50 = 124.18
}

TEST(Hue, OneThirdTurnsRedToGreenToBlue) {
  OwnedUInt8Image image = pixel_of(200, 20, 20);
  adjust_hue(image.view(), 1.0 / 3);
  EXPECT_EQ(image.rgb(0, 0)[1], 200);
  EXPECT_NEAR(image.rgb(0, 0)[0], 20, 1);
  adjust_hue(image.view(), 1.0 / 3);
  EXPECT_EQ(image.rgb(0, 0)[2], 200);
  EXPECT_NEAR(image.rgb(0, 0)[1], 20, 1);
}

TEST(Hue, MinusOneThirdTurnsRedToBlueToGreen) {
  OwnedUInt8Image image = pixel_of(200, 20, 20);
  adjust_hue(image.view(), -1.0 / 3);
  EXPECT_EQ(image.rgb(0, 0)[2], 200);
  EXPECT_NEAR(image.rgb(0, 0)[0], 20, 1);
  adjust_hue(image.view(), -1.0 / 3);
  EXPECT_EQ(image.rgb(0, 0)[1], 200);
  EXPECT_NEAR(image.rgb(0, 0)[2], 20, 1);
}

TEST(Hue, LeavesGreyUnchanged) {
  for (int level = 0; level < 256; ++level) {
    const auto grey = static_cast<std::uint8_t>(level);
    OwnedUInt8Image image = pixel_of(grey, grey, grey);
    adjust_hue(image.view(), 0.3);
    EXPECT_EQ(image.rgb(0, 0), Rgb({level, level, level}));
  }
}

TEST(Sharpness, OneIsIdentityAndZeroBlurs) {
  AugmentScratch scratch;
  OwnedUInt8Image image(5, 5);
  image.view().at(2, 2)[0] = 130;
  OwnedUInt8Image same = image;
  adjust_sharpness(same.view(), 1, scratch);
  EXPECT_EQ(same.rgbx, image.rgbx);
  adjust_sharpness(image.view(), 0, scratch);
  EXPECT_EQ(image.rgb(2, 2)[0], 50);  // 5 / 13
  EXPECT_EQ(image.rgb(1, 3)[0], 10);  // 1 / 13
  EXPECT_EQ(image.rgb(0, 0)[0], 0);
}

TEST(Sharpness, LeavesBorderPixelsUnchanged) {
  AugmentScratch scratch;
  OwnedUInt8Image image = OwnedUInt8Image::random(6, 5, 8);
  OwnedUInt8Image before = image;
  adjust_sharpness(image.view(), 0, scratch);
  for (int y = 0; y < 5; ++y) {
    for (int x = 0; x < 6; ++x) {
      const bool edge = x == 0 || x == 5 || y == 0 || y == 4;
      EXPECT_EQ(image.rgb(x, y) == before.rgb(x, y), edge) << x << ' ' << y;
    }
  }
}

TEST(Sharpness, LeavesImagesWithoutInteriorUnchanged) {
  AugmentScratch scratch;
  for (const auto& [width, height] : {std::pair{2, 9}, {9, 2}, {1, 1}}) {
    OwnedUInt8Image image = OwnedUInt8Image::random(width, height, 2);
    const OwnedUInt8Image before = image;
    adjust_sharpness(image.view(), 0, scratch);
    EXPECT_EQ(image.rgbx, before.rgbx);
  }
}

TEST(Affine, TranslationMovesPixelsAndFillsWithBlack) {
  AugmentScratch scratch;
  for (const auto& [right, down] : {std::pair{2, -1}, {-2, 1}}) {
    OwnedUInt8Image image = OwnedUInt8Image::random(7, 5, 3);
    OwnedUInt8Image before = image;
    translate(image.view(), right, down, scratch);
    for (int y = 0; y < 5; ++y) {
      for (int x = 0; x < 7; ++x) {
        const int from_x = x - right;
        const int from_y = y - down;
        const bool inside = from_x >= 0 && from_x < 7 && from_y >= 0 && from_y < 5;
        EXPECT_EQ(image.rgb(x, y), inside ? before.rgb(from_x, from_y) : Rgb({0, 0, 0})) << x << ' ' << y;
      }
    }
  }
}

TEST(Affine, TranslationBeyondTheImageGivesBlack) {
  AugmentScratch scratch;
  OwnedUInt8Image image = OwnedUInt8Image::random(7, 5, 4);
  translate(image.view(), 0, 5, scratch);
  EXPECT_TRUE(std::ranges::all_of(image.all_rgb(), [](int level) { return level == 0; }));
}

TEST(Affine, RotationBy90DegreesIsExact) {
  AugmentScratch scratch;
  OwnedUInt8Image image = OwnedUInt8Image::random(6, 6, 5);
  OwnedUInt8Image before = image;
  rotate(image.view(), 90, scratch);
  for (int y = 0; y < 6; ++y) {
    for (int x = 0; x < 6; ++x) {
      EXPECT_EQ(image.rgb(x, y), before.rgb(5 - y, x));
    }
  }
}

TEST(Affine, ShearMovesRowsInProportionToTheirHeight) {
  AugmentScratch scratch;
  OwnedUInt8Image image = OwnedUInt8Image::random(16, 16, 6);
  OwnedUInt8Image before = image;
  shear(image.view(), -1, 0, scratch);  // pixel centres: row y moves by y + 0.5, a tie at each pixel; look at pairs
  for (int y = 0; y < 16; ++y) {
    for (int x = y + 1; x < 16; ++x) {
      const Rgb now = image.rgb(x, y);
      EXPECT_TRUE(now == before.rgb(x - y, y) || now == before.rgb(x - y - 1, y)) << x << ' ' << y;
    }
  }
}

TEST(Operations, StayInsideTheImageAtAnySize) {
  AugmentScratch scratch;
  for (int operation = 0; operation < kOperations; ++operation) {
    for (const auto& [width, height] : {std::pair{1, 1}, {1, 9}, {9, 1}, {3, 3}, {33, 17}}) {
      for (const double magnitude : {-0.9, 0.0, 0.9}) {
        OwnedUInt8Image image = OwnedUInt8Image::random(width, height, 7);
        image.rgbx.insert(image.rgbx.end(), 64, 123);
        apply(static_cast<Operation>(operation), magnitude, image.view(), scratch);
        EXPECT_TRUE(std::all_of(image.rgbx.end() - 64, image.rgbx.end(), [](int level) { return level == 123; }));
      }
    }
  }
}

}  // namespace
}  // namespace rollcall::data
