#include "trainer/data/sampling/random.h"

#include <gtest/gtest.h>
#include <cmath>
#include <set>
#include <vector>

namespace rollcall::data {
namespace {

// kat_vectors of the Random123 distribution, philox4x32 with 10 rounds.
TEST(KeyedRandom, PhiloxMatchesTheKnownAnswerVectors) {
  using Block = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(KeyedRandom, EveryPartOfTheKeyChangesTheStream) {
  std::set<std::uint64_t> seen;
  const auto draw = [&](Random random) { seen.insert((std::uint64_t{random.bits()} << 32) | random.bits()); };
  for (std::uint64_t i = 0; i < 100; ++i) {
    draw(Random(i, Purpose::Augmentation, 1000, 1000));
    draw(Random(1000, Purpose::Augmentation, i, 1000));
    draw(Random(1000, Purpose::Augmentation, 1000, i));
    draw(Random(1000, Purpose::FakeLabel, 1000, i));
  }
  draw(Random(1000, Purpose::Augmentation, 1000, std::uint64_t{1} << 32));
  EXPECT_EQ(seen.size(), 401U);
}

TEST(KeyedRandom, UniformFillsItsRange) {
  Random random(1, Purpose::Augmentation, 0, 0);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double value = random.uniform(2, 4);
    ASSERT_GE(value, 2);
    ASSERT_LT(value, 4);
    sum += value;
  }
  EXPECT_NEAR(sum / 100'000, 3, 0.01);
  int without_low_bits = 0;
  for (int i = 0; i < 1000; ++i) {
    without_low_bits += std::fmod(random.uniform() * 0x1p53, 0x1p16) == 0 ? 1 : 0;
  }
  EXPECT_LT(without_low_bits, 5) << "all 53 bits of the fraction are drawn";
}

TEST(KeyedRandom, BelowIsUniform) {
  Random random(2, Purpose::Augmentation, 0, 0);
  std::array<int, 7> count{};
  for (int i = 0; i < 70'000; ++i) {
    ++count.at(random.below(7));
  }
  for (const int n : count) {
    EXPECT_NEAR(n, 10'000, 500);
  }
  EXPECT_EQ(random.below(1), 0U);
  // Of so large a count each value has one or two of the 2^32 words; every third one would come twice as often.
  std::array<int, 3> thirds{};
  for (int i = 0; i < 30'000; ++i) {
    ++thirds.at(random.below(3U << 30) % 3);
  }
  for (const int n : thirds) {
    EXPECT_NEAR(n, 10'000, 500);
  }
}

TEST(KeyedRandom, NormalDrawsHaveTheMomentsAndTailsOfAStandardNormal) {
  std::vector<float> draws(1'000'001);
  Random(3, Purpose::FakePixels, 0, 0).fill_normal(draws);
  double moments[4]{};
  int beyond_two = 0;
  for (const float value : draws) {
    double power = 1;
    for (double& moment : moments) {
      power *= value;
      moment += power / static_cast<double>(draws.size());
    }
    beyond_two += std::abs(value) > 2 ? 1 : 0;
  }
  EXPECT_NEAR(moments[0], 0, 0.005);
  EXPECT_NEAR(moments[1], 1, 0.005);
  EXPECT_NEAR(moments[2], 0, 0.02);
  EXPECT_NEAR(moments[3], 3, 0.05);
  EXPECT_NEAR(beyond_two / static_cast<double>(draws.size()), 0.0455, 0.001);
}

}  // namespace
}  // namespace rollcall::data
