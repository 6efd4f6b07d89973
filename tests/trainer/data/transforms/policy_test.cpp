#include "trainer/data/transforms/policy.h"

#include <gtest/gtest.h>
#include <map>

#include "tests/support/uint8_image.h"
#include "trainer/data/transforms/operations.h"
#include "trainer/data/transforms/three_augment.h"
#include "trainer/data/transforms/timm_policy.h"

namespace rollcall::data {
namespace {

using test::OwnedUInt8Image;

Random random_of(std::uint64_t sample) { return {1, Purpose::Augmentation, 0, sample}; }

/// A picture that every operation changes: not all levels occur.
OwnedUInt8Image picture() {
  OwnedUInt8Image image = OwnedUInt8Image::random(20, 20, 1);
  for (std::uint8_t& level : image.rgbx) {
    level = static_cast<std::uint8_t>(40 + level / 2);
  }
  return image;
}

/// What `augment(levels, random)` makes of one picture with the random numbers of a sample.
template <typename Augment>
std::vector<int> result_of(const Augment& augment, std::uint64_t sample) {
  OwnedUInt8Image image = picture();
  Random random = random_of(sample);
  augment(image.view(), random);
  return image.all_rgb();
}

/// How often each result comes up in `draws` samples.
template <typename Augment>
std::map<std::vector<int>, int> frequencies(const Augment& augment, int draws) {
  std::map<std::vector<int>, int> counts;
  for (int i = 0; i < draws; ++i) {
    ++counts[result_of(augment, static_cast<std::uint64_t>(i))];
  }
  return counts;
}

const auto kRandAugment = [](const UInt8Image& levels, Random& random) {
  AugmentScratch scratch;
  RandAugment(1, 15).apply(levels, random, scratch);
};
const auto kTrivial = [](const UInt8Image& levels, Random& random) {
  AugmentScratch scratch;
  TrivialAugmentWide().apply(levels, random, scratch);
};

TEST(RandAugmentPolicy, IsDeterminedByItsRandomNumbers) {
  EXPECT_EQ(result_of(kRandAugment, 3), result_of(kRandAugment, 3));
  EXPECT_EQ(result_of(kTrivial, 4), result_of(kTrivial, 4));
}

TEST(RandAugmentPolicy, ChoosesAllOperationsAndBothSignsEquallyOften) {
  // 14 operations, of which 9 have a sign: 9 * 2 at 1/28 and 5 at 1/14.
  const std::map<std::vector<int>, int> counts = frequencies(kRandAugment, 5600);
  EXPECT_EQ(counts.size(), 9U * 2 + 5);
  for (const auto& [pixels, count] : counts) {
    EXPECT_TRUE((count > 140 && count < 260) || (count > 320 && count < 480)) << count;
  }
}

TEST(RandAugmentPolicy, ZeroOperationsLeaveTheImageUnchanged) {
  OwnedUInt8Image image = picture();
  const auto nothing = [](const UInt8Image& levels, Random& random) {
    AugmentScratch scratch;
    RandAugment(0, 9).apply(levels, random, scratch);
  };
  EXPECT_EQ(result_of(nothing, 1), image.all_rgb());
}

TEST(TrivialAugmentPolicy, DrawsItsMagnitudes) {
  const std::map<std::vector<int>, int> counts = frequencies(kTrivial, 3000);
  EXPECT_GT(counts.size(), 150U);
  // Its translations of up to 32 pixels leave nothing of a picture of 20; RandAugment's would leave half of it.
  EXPECT_TRUE(counts.contains(std::vector<int>(picture().all_rgb().size(), 0)));
}

TEST(ThreeAugmentPolicy, ChoosesItsThreeOperationsEquallyOften) {
  const auto augment = [](const UInt8Image& levels, Random& random) {
    AugmentScratch scratch;
    three_augment(levels, random, scratch);
  };
  EXPECT_EQ(result_of(augment, 3), result_of(augment, 3));
  OwnedUInt8Image grey = picture();
  to_greyscale(grey.view());
  OwnedUInt8Image solarised = picture();
  ToneCurve::solarize(128).apply(solarised.view());
  const std::map<std::vector<int>, int> counts = frequencies(augment, 1500);
  EXPECT_NEAR(counts.at(grey.all_rgb()), 500, 60);
  EXPECT_NEAR(counts.at(solarised.all_rgb()), 500, 60);
  EXPECT_GT(counts.size(), 300U);  // the rest is blurred, each by another radius
}

TEST(AugMixPolicy, IsDeterminedByItsRandomNumbers) {
  const auto augment = [](const UInt8Image& levels, Random& random) {
    AugmentScratch scratch;
    TimmAugMix({}).apply(levels, random, scratch);
  };
  EXPECT_EQ(result_of(augment, 3), result_of(augment, 3));
  EXPECT_EQ(frequencies(augment, 400).size(), 400U);
}

TEST(Magnitudes, StartAtTheIdentity) {
  for (const AugmentPolicy policy : {AugmentPolicy::RandAugment, AugmentPolicy::TrivialAugmentWide}) {
    for (int operation = 0; operation < kOperations; ++operation) {
      const auto which = static_cast<Operation>(operation);
      const double weakest = magnitude_of(policy, which, 0, {224, 224});
      EXPECT_EQ(weakest, which == Operation::Posterize ? 8 : which == Operation::Solarize ? 1 : 0);
    }
  }
  EXPECT_EQ(magnitude_of(AugmentPolicy::RandAugment, Operation::Posterize, 30, {224, 224}), 4);
  EXPECT_EQ(magnitude_of(AugmentPolicy::TrivialAugmentWide, Operation::Rotate, 20, {224, 224}), 90);
}

TEST(Magnitudes, ScaleWithTheImageAndAreRounded) {
  EXPECT_FLOAT_EQ(static_cast<float>(magnitude_of(AugmentPolicy::RandAugment, Operation::TranslateX, 30, {331, 662})),
                  150);
  EXPECT_FLOAT_EQ(static_cast<float>(magnitude_of(AugmentPolicy::RandAugment, Operation::TranslateY, 30, {331, 662})),
                  300);
  EXPECT_EQ(magnitude_of(AugmentPolicy::RandAugment, Operation::Posterize, 10, {224, 224}), 7);  // 8 - 10 / 7.5 = 6.67
  EXPECT_EQ(magnitude_of(AugmentPolicy::RandAugment, Operation::Posterize, 20, {224, 224}), 5);  // 5.33
}

TEST(ColourJitterPolicy, ZeroStrengthLeavesTheImageUnchanged) {
  OwnedUInt8Image image = picture();
  const ColourJitter none({});
  EXPECT_EQ(result_of([&](const UInt8Image& levels, Random& random) { none.apply(levels, random); }, 1),
            image.all_rgb());
}

TEST(ColourJitterPolicy, KeepsFactorsWithinTheirRange) {
  const ColourJitter jitter({.brightness = 0.3});
  bool darker = false;
  bool brighter = false;
  for (std::uint64_t sample = 0; sample < 500; ++sample) {
    OwnedUInt8Image image(1, 1);
    image.rgbx = {100, 100, 100, 0};
    Random random = random_of(sample);
    jitter.apply(image.view(), random);
    const int level = image.rgb(0, 0)[0];
    ASSERT_GE(level, 70);
    ASSERT_LE(level, 130);
    darker = darker || level < 75;
    brighter = brighter || level > 125;
  }
  EXPECT_TRUE(darker && brighter);
}

// Contrast turns around the mean level, which brightness changes: both orders can be told from what they give.
TEST(ColourJitterPolicy, AppliesItsStepsInRandomOrder) {
  const ColourJitter jitter({.brightness = 0.4, .contrast = 0.4});
  int brightness_first = 0;
  constexpr int kSamples = 200;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    Random random = random_of(sample);
    for (const std::uint32_t left : {4U, 3U, 2U}) {
      (void)random.below(left);  // the order
    }
    const double brightness = random.uniform(0.6, 1.4);
    const double contrast = random.uniform(0.6, 1.4);
    OwnedUInt8Image one = picture();
    ToneCurve::brightness(brightness).apply(one.view());
    ToneCurve::contrast(one.view(), contrast).apply(one.view());
    OwnedUInt8Image other = picture();
    ToneCurve::contrast(other.view(), contrast).apply(other.view());
    ToneCurve::brightness(brightness).apply(other.view());
    const std::vector<int> found =
        result_of([&](const UInt8Image& levels, Random& drawn) { jitter.apply(levels, drawn); }, sample);
    ASSERT_TRUE(found == one.all_rgb() || found == other.all_rgb()) << sample;
    brightness_first += found == one.all_rgb() ? 1 : 0;
  }
  EXPECT_NEAR(brightness_first, kSamples / 2, 40);
}

TEST(ColourJitterPolicy, DrawsTheSameNumberOfRandomNumbersForAnyOptions) {
  const auto next = [](const ColourJitterOptions& strengths) {
    OwnedUInt8Image image = picture();
    Random random = random_of(1);
    ColourJitter(strengths).apply(image.view(), random);
    return random.bits();
  };
  for (int on = 1; on < 16; ++on) {
    const auto strength = [&](int bit) { return (on >> bit & 1) * 0.2; };
    EXPECT_EQ(next({strength(0), strength(1), strength(2), strength(3)}), next({})) << on;
  }
}

TEST(ColourJitterPolicy, EnablingHueDoesNotChangeOtherFactors) {
  // A grey picture has no hue, so that both must give the same.
  const auto level_with = [](double hue, std::uint64_t sample) {
    OwnedUInt8Image image(1, 1);
    image.rgbx = {100, 100, 100, 0};
    Random random = random_of(sample);
    ColourJitter({.brightness = 0.4, .hue = hue}).apply(image.view(), random);
    return image.rgb(0, 0)[0];
  };
  for (std::uint64_t sample = 0; sample < 100; ++sample) {
    EXPECT_EQ(level_with(0, sample), level_with(0.2, sample));
  }
}

}  // namespace
}  // namespace rollcall::data
