#include "trainer/data/transforms/batch_mix.h"
#include "runtime/base/bfloat16.h"

#include <gtest/gtest.h>
#include <bit>
#include <cmath>
#include <numeric>

#include "trainer/data/pixels.h"

namespace rollcall::data {
namespace {

constexpr int kSide = 8;
constexpr std::size_t kElements = kSide * kSide * 3;

/// Samples whose elements are all different.
template <typename Element>
struct BatchOf {
  std::vector<std::vector<Element>> samples;

  explicit BatchOf(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<Element> sample(kElements);
      for (std::size_t k = 0; k < kElements; ++k) {
        const float value = static_cast<float>(i + 1) + static_cast<float>(k) / 256;
        if constexpr (sizeof(Element) == 4) {
          sample[k] = value;
        } else {
          sample[k] = to_bfloat16(value);
        }
      }
      samples.push_back(sample);
    }
  }

  [[nodiscard]] std::vector<OutputPixels> outputs() {
    std::vector<OutputPixels> all;
    for (auto& sample : samples) {
      all.push_back({sample.data(), sizeof(Element) == 4 ? PixelType::Float32 : PixelType::BFloat16, kSide, kSide});
    }
    return all;
  }
};

TEST(SymmetricBeta, HasItsMeanAndVariance) {
  for (const double alpha : {0.1, 0.2, 0.8, 1.0, 2.5, 20.0}) {
    Random random(1, Purpose::BatchMix, 0, 0);
    double sum = 0;
    double squares = 0;
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i) {
      const double draw = symmetric_beta(alpha, random);
      ASSERT_GE(draw, 0);
      ASSERT_LE(draw, 1);
      sum += draw;
      squares += (draw - 0.5) * (draw - 0.5);
    }
    EXPECT_NEAR(sum / kDraws, 0.5, 0.015) << alpha;
    EXPECT_NEAR(squares / kDraws, 1 / (4 * (2 * alpha + 1)), 0.01) << alpha;
  }
}

TEST(SymmetricBeta, IsFiniteForTinyAlphas) {
  Random random(1, Purpose::BatchMix, 0, 0);
  int high = 0;
  for (int i = 0; i < 1000; ++i) {
    const double draw = symmetric_beta(1e-4, random);
    ASSERT_TRUE(draw >= 0 && draw <= 1);
    high += draw > 0.5 ? 1 : 0;
  }
  EXPECT_NEAR(high, 500, 80);
}

TEST(ChosenMix, IsDeterminedBySeedEpochAndStep) {
  const AugmentOptions options{.mixup_alpha = 0.2, .cutmix_alpha = 1};
  const auto lambda = [&](std::uint64_t seed, std::uint64_t epoch, std::uint64_t step) {
    return choose_mix(options, {224, 224}, seed, epoch, step).lambda;
  };
  EXPECT_EQ(lambda(1, 2, 3), lambda(1, 2, 3));
  EXPECT_NE(lambda(1, 2, 3), lambda(1, 2, 4));
  EXPECT_NE(lambda(1, 2, 3), lambda(1, 3, 3));
  EXPECT_NE(lambda(1, 2, 3), lambda(2, 2, 3));
}

TEST(ChosenMix, UsesOnlyTheEnabledKinds) {
  const auto share_of_mixup = [](const AugmentOptions& options) {
    int mixups = 0;
    for (std::uint64_t step = 0; step < 1000; ++step) {
      const BatchMix mix = choose_mix(options, {32, 32}, 1, 0, step);
      EXPECT_NE(mix.kind, BatchMix::Kind::None);
      mixups += mix.kind == BatchMix::Kind::MixUp ? 1 : 0;
    }
    return mixups;
  };
  EXPECT_EQ(share_of_mixup({.mixup_alpha = 0.2}), 1000);
  EXPECT_EQ(share_of_mixup({.cutmix_alpha = 1}), 0);
  EXPECT_NEAR(share_of_mixup({.mixup_alpha = 0.2, .cutmix_alpha = 1}), 500, 80);
  EXPECT_EQ(choose_mix({}, {32, 32}, 1, 0, 0).kind, BatchMix::Kind::None);
}

TEST(ChosenMix, LambdaOfCutMixIsTheRemainingArea) {
  for (std::uint64_t step = 0; step < 1000; ++step) {
    const BatchMix mix = choose_mix({.cutmix_alpha = 1}, {37, 21}, 1, 0, step);
    ASSERT_GE(std::min(mix.box.left, mix.box.top), 0);
    ASSERT_LE(mix.box.right(), 37);
    ASSERT_LE(mix.box.bottom(), 21);
    ASSERT_DOUBLE_EQ(mix.lambda, 1 - mix.box.width * mix.box.height / (37.0 * 21));
  }
}

TEST(MixedBatch, MixUpBlendsEachSampleWithThePrevious) {
  BatchOf<float> batch(3);
  const BatchOf<float> before(3);
  std::vector<std::byte> last;
  mix_batch({.kind = BatchMix::Kind::MixUp, .lambda = 0.75}, batch.outputs(), last);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t partner = mix_partner(i, 3);
    for (std::size_t k = 0; k < kElements; ++k) {
      ASSERT_EQ(batch.samples[i][k], 0.75F * before.samples[i][k] + 0.25F * before.samples[partner][k]);
    }
  }
}

TEST(MixedBatch, MixUpOfBFloat16IsRoundedOnce) {
  BatchOf<std::uint16_t> batch(2);
  const BatchOf<std::uint16_t> before(2);
  const auto value = [](std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); };
  std::vector<std::byte> last;
  mix_batch({.kind = BatchMix::Kind::MixUp, .lambda = 0.625}, batch.outputs(), last);
  for (std::size_t k = 0; k < kElements; ++k) {
    ASSERT_EQ(batch.samples[0][k],
              to_bfloat16(0.625F * value(before.samples[0][k]) + 0.375F * value(before.samples[1][k])));
  }
}

TEST(MixedBatch, CutMixCopiesTheBoxOfThePrevious) {
  BatchOf<std::uint16_t> batch(4);
  const BatchOf<std::uint16_t> before(4);
  std::vector<std::byte> last;
  const BatchMix mix{.kind = BatchMix::Kind::CutMix, .lambda = 0.9, .box = {2, 3, 4, 1}};
  mix_batch(mix, batch.outputs(), last);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t k = 0; k < kElements; ++k) {
      const std::size_t x = k / 3 % kSide;
      const std::size_t y = k / 3 / kSide;
      const bool inside = x >= 2 && x < 6 && y == 3;
      ASSERT_EQ(batch.samples[i][k], before.samples[inside ? mix_partner(i, 4) : i][k]);
    }
  }
}

TEST(MixedBatch, AcceptsBatchesOfOneOrNoSample) {
  BatchOf<float> batch(1);
  const BatchOf<float> before(1);
  std::vector<std::byte> last;
  mix_batch({.kind = BatchMix::Kind::CutMix, .lambda = 0.5, .box = {0, 0, kSide, kSide}}, batch.outputs(), last);
  EXPECT_EQ(batch.samples[0], before.samples[0]);
  mix_batch({.kind = BatchMix::Kind::MixUp, .lambda = 0.5}, {}, last);
}

}  // namespace
}  // namespace rollcall::data
