#include "trainer/data/transforms/transforms.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <vector>

namespace rollcall::data {
namespace {

Random erasing_random(std::uint64_t sample) { return {2, Purpose::Augmentation, 0, sample}; }

TEST(SampleErasing, HappensWithItsProbability) {
  int erased = 0;
  for (std::uint64_t sample = 0; sample < 2000; ++sample) {
    Random random = erasing_random(sample);
    erased += RandomErasing(0.25).choose({224, 224}, random) ? 1 : 0;
  }
  EXPECT_NEAR(erased, 500, 80);
  Random random = erasing_random(0);
  EXPECT_FALSE(RandomErasing(0).choose({224, 224}, random));
}

TEST(SampleErasing, ChoosesBoxesInTheirRangesInsideTheImage) {
  double area = 0;
  for (std::uint64_t sample = 0; sample < 2000; ++sample) {
    Random random = erasing_random(sample);
    const std::optional<Box> box = RandomErasing(1).choose({200, 100}, random);
    ASSERT_TRUE(box);
    ASSERT_GE(std::min(box->left, box->top), 0);
    ASSERT_LE(box->right(), 200);
    ASSERT_LE(box->bottom(), 100);
    const double part = box->width * box->height / 20000.0;
    ASSERT_GT(part, 0.017);
    ASSERT_LT(part, 0.35);
    const double ratio = static_cast<double>(box->height) / box->width;
    ASSERT_GT(ratio, 0.27);
    ASSERT_LT(ratio, 3.5);
    area += part / 2000;
  }
  EXPECT_GT(area, 0.12);
  EXPECT_LT(area, 0.175);
}

TEST(SampleErasing, ErasesNothingIfNoBoxFits) {
  Random random = erasing_random(0);
  EXPECT_FALSE(RandomErasing(1).choose({100, 1}, random));
}

/// The box as apply() chooses it.
Box box_of(std::uint64_t sample, ImageSize size) {
  Random random = erasing_random(sample);
  return *RandomErasing(1).choose(size, random);
}

template <typename Element>
void expect_only_the_box_is_zero(PixelType type) {
  AugmentScratch scratch;
  std::vector<Element> pixels(30 * 20 * 3, Element{7});
  Random random = erasing_random(5);
  RandomErasing(1).apply({pixels.data(), type, 30, 20}, random, scratch);
  const Box box = box_of(5, {30, 20});
  for (int i = 0; i < 30 * 20 * 3; ++i) {
    const int x = i / 3 % 30;
    const int y = i / 90;
    const bool inside = x >= box.left && x < box.right() && y >= box.top && y < box.bottom();
    ASSERT_EQ(pixels[static_cast<std::size_t>(i)], inside ? Element{0} : Element{7});
  }
}

TEST(SampleErasing, WritesZerosOnlyIntoTheBox) {
  expect_only_the_box_is_zero<float>(PixelType::Float32);
  expect_only_the_box_is_zero<std::uint16_t>(PixelType::BFloat16);
}

TEST(SampleErasing, WritesStandardNormalNoise) {
  AugmentScratch scratch;
  std::vector<float> pixels(200 * 200 * 3, 100.0F);
  Random random = erasing_random(6);
  RandomErasing(1, EraseValue::Random).apply({pixels.data(), PixelType::Float32, 200, 200}, random, scratch);
  double sum = 0;
  double squares = 0;
  int count = 0;
  for (const float value : pixels) {
    if (value != 100.0F) {
      sum += value;
      squares += value * value;
      ++count;
    }
  }
  const Box box = box_of(6, {200, 200});
  ASSERT_EQ(count, box.width * box.height * 3);
  EXPECT_NEAR(sum / count, 0, 0.1);
  EXPECT_NEAR(squares / count, 1, 0.1);
  const auto row = [&](int y) {
    const auto begin = pixels.begin() + (std::ptrdiff_t{y} * 200 + box.left) * 3;
    return std::vector<float>(begin, begin + std::ptrdiff_t{box.width} * 3);
  };
  for (int y = box.top + 1; y < box.bottom(); ++y) {
    ASSERT_NE(row(y), row(y - 1)) << "noise, not stripes";
  }
}

}  // namespace
}  // namespace rollcall::data
