#include "trainer/distributed/algorithms/elements.h"

#include <gtest/gtest.h>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace rollcall::process_group {
namespace {

template <typename T>
std::vector<T> combined(ElementType type, Reduction reduction, std::vector<T> target, const std::vector<T>& source) {
  combine_function(type, reduction)(target.data(), source.data(), target.size());
  return target;
}

TEST(Elements, ReducesIntegersAndFloatsBySumAndMax) {
  using Doubles = std::vector<double>;
  const Doubles a{1.5, -2, 8}, b{3, 4, -0.5};
  EXPECT_EQ(combined(ElementType::Float64, Reduction::Sum, a, b), (Doubles{4.5, 2, 7.5}));
  EXPECT_EQ(combined(ElementType::Float64, Reduction::Max, a, b), (Doubles{3, 4, 8}));
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(combined(ElementType::Int64, Reduction::Max, Numbers{-3, 5}, Numbers{2, 4}), (Numbers{2, 5}));
}

TEST(Elements, SignedIntegersWrapAroundWithoutUndefinedBehaviour) {
  const std::vector<std::int32_t> most{std::numeric_limits<std::int32_t>::max()};
  EXPECT_EQ(combined(ElementType::Int32, Reduction::Sum, most, {1})[0], std::numeric_limits<std::int32_t>::min());
}

TEST(Elements, HalfTypesRoundToNearestEvenAndKeepNaN) {
  // 1 + 2^-8 lies between the BFloat16 numbers 1 and 1 + 2^-7: to the even one, 1.
  EXPECT_EQ(combined<std::uint16_t>(ElementType::BFloat16, Reduction::Sum, {0x3f80}, {0x3b80})[0], 0x3f80);
  // Likewise between the odd 1 + 2^-7 and 1 + 2^-6; and what lies above the middle goes up from an even one as well.
  EXPECT_EQ(combined<std::uint16_t>(ElementType::BFloat16, Reduction::Sum, {0x3f81}, {0x3b80})[0], 0x3f82);
  EXPECT_EQ(combined<std::uint16_t>(ElementType::BFloat16, Reduction::Sum, {0x3f80}, {0x3bc0})[0], 0x3f81);
  EXPECT_EQ(combined<std::uint16_t>(ElementType::BFloat16, Reduction::Sum, {0x3f80}, {0x3f80})[0], 0x4000);
  const std::uint16_t nan = combined<std::uint16_t>(ElementType::BFloat16, Reduction::Sum, {0x7fff}, {0x3f80})[0];
  EXPECT_GT(nan & 0x7fff, 0x7f80) << "still a NaN";
  // Float16: 1 + 1 = 2, and 65504 (the largest) + 65504 is infinite.
  EXPECT_EQ(combined<std::uint16_t>(ElementType::Float16, Reduction::Sum, {0x3c00}, {0x3c00})[0], 0x4000);
  EXPECT_EQ(combined<std::uint16_t>(ElementType::Float16, Reduction::Sum, {0x7bff}, {0x7bff})[0], 0x7c00);
}

TEST(Elements, ReductionsAreCommutativeBitForBit) {
  const std::vector<float> a{0.0F, -0.0F, 1e-45F, NAN, 3}, b{-0.0F, 0.0F, -1e-45F, 1, NAN};
  for (const Reduction reduction : {Reduction::Sum, Reduction::Max}) {
    const std::vector<float> ab = combined(ElementType::Float32, reduction, a, b);
    const std::vector<float> ba = combined(ElementType::Float32, reduction, b, a);
    EXPECT_EQ(std::memcmp(ab.data(), ba.data(), ab.size() * sizeof(float)), 0) << static_cast<int>(reduction);
    EXPECT_TRUE(std::isnan(ab[3]) && std::isnan(ab[4]));
  }
}

}  // namespace
}  // namespace rollcall::process_group
