#include "trainer/data/transforms/transforms.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "tests/support/rgb_image.h"
#include "tests/support/test_images.h"

namespace rollcall::data {
namespace {

test::RgbImage smooth_image(int width, int height) { return {width, height, test::smooth_pixels(width, height, 1)}; }

template <typename AnyTransform>
std::vector<float> run(const AnyTransform& transform, const test::RgbImage& image, Random& random) {
  std::vector<float> pixels;
  AugmentScratch scratch;
  const OutputPixels out = test::square_of(pixels, transform.image_size);
  const Resize plan = transform.plan({image.width, image.height}, random);
  transform.apply(test::RgbxPixels(image).view(), plan, random, out, scratch);
  return pixels;
}

Random random_of(std::uint64_t sample) { return {1, Purpose::Augmentation, 0, sample}; }

TEST(RandomCropBox, StaysInsideTheImageAndInItsRanges) {
  const RandomCrop crop;
  double area = 0;
  for (std::uint64_t sample = 0; sample < 5000; ++sample) {
    Random random = random_of(sample);
    const Box box = crop.choose(500, 375, random);
    ASSERT_GE(box.left, 0);
    ASSERT_GE(box.top, 0);
    ASSERT_LE(box.left + box.width, 500);
    ASSERT_LE(box.top + box.height, 375);
    const double ratio = static_cast<double>(box.width) / box.height;
    ASSERT_GT(ratio, 0.74);
    ASSERT_LT(ratio, 1.35);
    const double part = box.width * box.height / (500.0 * 375);
    ASSERT_GT(part, 0.079);
    area += part / 5000;
  }
  // torchvision's get_params, 20,000 draws on this size: 0.4348; the mean of 5,000 has a standard deviation of 0.0035.
  EXPECT_NEAR(area, 0.4348, 0.015);
}

TEST(RandomCropBox, IsAsOftenTallAsWideAndReachesEveryEdge) {
  double log_ratio = 0;
  bool left = false;
  bool top = false;
  bool right = false;
  bool bottom = false;
  for (std::uint64_t sample = 0; sample < 5000; ++sample) {
    Random random = random_of(sample);
    const Box box = RandomCrop{}.choose(400, 400, random);
    log_ratio += std::log(static_cast<double>(box.width) / box.height) / 5000;
    left = left || box.left == 0;
    top = top || box.top == 0;
    right = right || box.right() == 400;
    bottom = bottom || box.bottom() == 400;
  }
  // Uniform between -log(4/3) and log(4/3), the mean of 5,000 has a standard deviation of 0.0024.
  EXPECT_NEAR(log_ratio, 0, 0.01);
  EXPECT_TRUE(left && top && right && bottom);
}

TEST(RandomCropBox, SmallCropsReachEveryPosition) {
  const RandomCrop quarter{.scale_min = 0.25, .scale_max = 0.25, .ratio_min = 1, .ratio_max = 1};
  std::set<int> lefts;
  std::set<int> tops;
  for (std::uint64_t sample = 0; sample < 5000; ++sample) {
    Random random = random_of(sample);
    const Box box = quarter.choose(64, 64, random);
    ASSERT_EQ(box.width, 32);
    lefts.insert(box.left);
    tops.insert(box.top);
  }
  EXPECT_EQ(lefts.size(), 33U);
  EXPECT_EQ(*lefts.rbegin(), 32);
  EXPECT_EQ(tops.size(), 33U);
  EXPECT_EQ(*tops.rbegin(), 32);
}

TEST(RandomCropBox, FallsBackToTheCentreIfNoTryFits) {
  const RandomCrop whole{.scale_min = 1, .scale_max = 1};
  Random random = random_of(0);
  EXPECT_EQ(whole.choose(1000, 10, random), (Box{493, 0, 13, 10}));  // 13 = round(10 * 4 / 3)
  EXPECT_EQ(whole.choose(10, 1000, random), (Box{0, 493, 10, 13}));
  EXPECT_EQ(RandomCrop{}.choose(1, 1, random), (Box{0, 0, 1, 1}));
}

TEST(TrainImageTransform, IsDeterminedByItsRandomNumbers) {
  const test::RgbImage image = smooth_image(64, 48);
  const TrainTransform transform{.image_size = 32};
  const auto pixels = [&](std::uint64_t sample) {
    Random random = random_of(sample);
    return run(transform, image, random);
  };
  EXPECT_EQ(pixels(5), pixels(5));
  EXPECT_NE(pixels(5), pixels(6));
}

TEST(TrainImageTransform, FlipsWithItsProbability) {
  const test::RgbImage image = smooth_image(32, 32);
  TrainTransform transform{.image_size = 32, .crop = {.scale_min = 1, .scale_max = 1, .ratio_min = 1, .ratio_max = 1}};
  transform.flip_probability = 0;
  Random first = random_of(0);
  const std::vector<float> straight = run(transform, image, first);
  transform.flip_probability = 1;
  Random second = random_of(0);
  const std::vector<float> mirrored = run(transform, image, second);
  const auto rising = [](float left, float right) { return left < right; };
  const auto levels = [&image](int x) { return static_cast<float>(image.pixels.at(static_cast<std::size_t>(3 * x))); };
  ASSERT_NE(levels(0), levels(31));
  EXPECT_EQ(rising(straight[0], straight[93]), rising(levels(0), levels(31)));
  EXPECT_EQ(rising(mirrored[93], mirrored[0]), rising(levels(0), levels(31)));
  int flipped = 0;
  transform.flip_probability = 0.25;
  for (std::uint64_t sample = 0; sample < 1000; ++sample) {
    Random random = random_of(sample);
    flipped += run(transform, image, random) == straight ? 0 : 1;
  }
  EXPECT_NEAR(flipped, 250, 70);
}

TEST(TrainImageTransform, EnlargesTinyImages) {
  const test::RgbImage image = smooth_image(8, 8);
  for (std::uint64_t sample = 0; sample < 200; ++sample) {
    Random random = random_of(sample);
    const std::vector<float> pixels = run(TrainTransform{.image_size = 32}, image, random);
    ASSERT_TRUE(std::all_of(pixels.begin(), pixels.end(), [](float value) { return std::abs(value) < 3; }));
  }
}

TEST(TrainImageTransform, FlipsVerticallyWithItsProbability) {
  const test::RgbImage image = smooth_image(32, 32);
  TrainTransform transform{.image_size = 32, .crop = {.scale_min = 1, .scale_max = 1, .ratio_min = 1, .ratio_max = 1}};
  transform.flip_probability = 0;
  Random first = random_of(0);
  const std::vector<float> upright = run(transform, image, first);
  int turned = 0;
  transform.vertical_flip_probability = 0.25;
  for (std::uint64_t sample = 0; sample < 1000; ++sample) {
    Random random = random_of(sample);
    const std::vector<float> pixels = run(transform, image, random);
    if (pixels != upright) {
      ++turned;
      ASSERT_TRUE(std::equal(pixels.begin(), pixels.begin() + 96, upright.end() - 96));
    }
  }
  EXPECT_NEAR(turned, 250, 70);
}

TEST(TrainImageTransform, IdentityAugmentationOnlyRoundsToLevels) {
  const test::RgbImage image = smooth_image(90, 70);
  TrainTransform through_levels{.image_size = 48};
  through_levels.augment.policy = AugmentPolicy::RandAugment;
  through_levels.augment.randaugment_ops = 0;
  for (std::uint64_t sample = 0; sample < 50; ++sample) {
    Random random = random_of(sample);
    Random same = random_of(sample);
    const std::vector<float> direct = run(TrainTransform{.image_size = 48}, image, random);
    const std::vector<float> rounded = run(through_levels, image, same);
    bool differs = false;
    for (std::size_t i = 0; i < direct.size(); ++i) {
      ASSERT_NEAR(rounded[i], direct[i], 0.501 / 255 / 0.224);
      differs = differs || rounded[i] != direct[i];
    }
    ASSERT_TRUE(differs);
  }
}

TEST(TrainImageTransform, AugmentationIsDeterminedByItsRandomNumbers) {
  const test::RgbImage image = smooth_image(64, 48);
  TrainTransform transform{.image_size = 32};
  transform.augment.policy = AugmentPolicy::TrivialAugmentWide;
  transform.augment.colour_jitter = {.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1};
  transform.augment.erase_probability = 0.5;
  const auto pixels = [&](std::uint64_t sample) {
    Random random = random_of(sample);
    return run(transform, image, random);
  };
  for (std::uint64_t sample = 0; sample < 50; ++sample) {
    ASSERT_EQ(pixels(sample), pixels(sample));
    ASSERT_NE(pixels(sample), pixels(sample + 1));
  }
}

TEST(TrainImageTransform, ErasesAfterNormalisation) {
  test::RgbImage image = smooth_image(32, 32);
  std::ranges::fill(image.pixels, std::uint8_t{255});
  TrainTransform transform{.image_size = 32};
  transform.augment.erase_probability = 1;
  Random random = random_of(1);
  const std::vector<float> pixels = run(transform, image, random);
  const auto zeros = std::ranges::count(pixels, 0.0F);
  EXPECT_GT(zeros, 32 * 32 * 3 / 100);
  EXPECT_LT(zeros, 32 * 32 * 3 / 2);
}

TEST(HalvedPlan, OfAHalfSizeDecodeGivesNearlyTheSamePixels) {
  const test::RgbImage image = smooth_image(401, 301);
  const std::vector<std::byte> file = test::make_jpeg(image.pixels, image.width, image.height);
  ImageDecoder decoder({.dct_scaling = true});
  ASSERT_TRUE(decoder.open({.bytes = file}));
  for (const Box& source : {Box{0, 0, 400, 300}, Box{50, 34, 300, 220}, Box{51, 33, 301, 221}}) {
    const Resize plan{.source = source, .width = 64, .height = 64, .wanted = {0, 0, 64, 64}};
    ASSERT_EQ(decoder.reduction_for(source, {64, 64}), 2);
    const Resize half = halved(plan);
    std::vector<float> exact;
    std::vector<float> fast;
    const OutputPixels exact_out = test::square_of(exact, 64);
    const OutputPixels fast_out = test::square_of(fast, 64);
    resize(*decoder.decode(needed(plan)), plan, {}, exact_out);
    resize(*decoder.decode(doubled(needed(half), {401, 301}), 2), half, {}, fast_out);
    double sum = 0;
    for (std::size_t k = 0; k < exact.size(); ++k) {
      sum += std::abs(exact[k] - fast[k]);
    }
    // Even edges lose nothing but detail; odd ones move by half a pixel, here about two levels.
    EXPECT_LT(sum / static_cast<double>(exact.size()), source.left % 2 == 0 ? 0.7 : 3) << source.left;
  }
}

TEST(EvalImageTransform, TakesTheCentreAndNormalises) {
  test::RgbImage image = smooth_image(40, 20);
  std::ranges::fill(image.pixels, std::uint8_t{0});
  for (int y = 0; y < 20; ++y) {
    for (int x = 15; x < 25; ++x) {
      std::fill_n(image.pixels.begin() + (y * 40 + x) * 3, 3, std::uint8_t{255});
    }
  }
  Random unused = random_of(0);
  // No scaling: the ten white columns.
  const auto pixels = run(EvalTransform{.image_size = 10, .resize_size = 20}, image, unused);
  EXPECT_NEAR(pixels[0], (1 - 0.485) / 0.229, 1e-5);
  EXPECT_NEAR(pixels[1], (1 - 0.456) / 0.224, 1e-5);
  EXPECT_NEAR(pixels[2], (1 - 0.406) / 0.225, 1e-5);
  EXPECT_NEAR(pixels.back(), (1 - 0.406) / 0.225, 1e-5);
}

TEST(EvalImageTransform, DoesNotDependOnRandomNumbers) {
  const test::RgbImage image = smooth_image(50, 40);
  const EvalTransform transform{.image_size = 24, .resize_size = 32};
  Random first = random_of(0);
  const std::vector<float> pixels = run(transform, image, first);
  for (std::uint64_t sample = 1; sample < 50; ++sample) {
    Random random = random_of(sample);
    ASSERT_EQ(run(transform, image, random), pixels) << sample;
  }
}

}  // namespace
}  // namespace rollcall::data
