#include <gmock/gmock.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "trainer/tools/checkpoint/statistics.h"

namespace rollcall::checkpoint_tool {
namespace {

using checkpoint::format::DType;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Elements, EveryHalfRoundTrips) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float number = half_to_float(half);
    if (std::isnan(number)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(number))));
    } else {
      ASSERT_EQ(float_to_half(number), half) << bits;
    }
    if (!std::isnan(from_bfloat16(half))) {
      ASSERT_EQ(float_to_bfloat16(from_bfloat16(half)), half) << bits;
    }
  }
}

TEST(Elements, RoundToNearestTiesToEven) {
  EXPECT_EQ(half_to_float(float_to_half(2049)), 2048);
  EXPECT_EQ(half_to_float(float_to_half(2051)), 2052);
  EXPECT_EQ(half_to_float(float_to_half(65519)), 65504);
  EXPECT_EQ(half_to_float(float_to_half(65520)), kInfinity);
  EXPECT_EQ(half_to_float(float_to_half(-1e9F)), -kInfinity);
  EXPECT_EQ(half_to_float(float_to_half(0x1p-25F)), 0);
  EXPECT_EQ(half_to_float(float_to_half(0x1.8p-24F)), 0x1p-23F);
  EXPECT_EQ(half_to_float(float_to_half(0x1.ff8p-15F)), 0x1.ff8p-15F);  // the largest subnormal one
  EXPECT_EQ(half_to_float(float_to_half(0x1.ffcp-15F)), 0x1p-14F);      // the carry into the normal ones
  EXPECT_EQ(from_bfloat16(float_to_bfloat16(257)), 256);
  EXPECT_EQ(from_bfloat16(float_to_bfloat16(259)), 260);
  EXPECT_TRUE(std::isnan(from_bfloat16(float_to_bfloat16(std::bit_cast<float>(0x7f800001U)))));
}

template <typename Number, std::size_t count>
std::span<const std::byte> bytes_of(const std::array<Number, count>& numbers) {
  return std::as_bytes(std::span(numbers));
}

TEST(Statistics, AreOverTheFiniteElements) {
  const std::array numbers{1.0F, 3.0F, kNan, -kInfinity, 0.0F};
  const Statistics found = statistics_of(bytes_of(numbers), DType::Float32);
  EXPECT_EQ(found.elements, 5U);
  EXPECT_EQ(found.nan, 1U);
  EXPECT_EQ(found.infinite, 1U);
  EXPECT_EQ(found.zeros, 1U);
  EXPECT_EQ(found.minimum, 0);
  EXPECT_EQ(found.maximum, 3);
  EXPECT_DOUBLE_EQ(found.mean, 4.0 / 3);
  EXPECT_DOUBLE_EQ(found.stddev, std::sqrt(14.0 / 9));
  EXPECT_EQ(statistics_of({}, DType::Int64).maximum, 0);
  EXPECT_EQ(statistics_of(bytes_of(std::array{kNan}), DType::Float32).maximum, 0);
}

TEST(Difference, CountsElementsThatDifferInValue) {
  const std::array a{1.0, 2.0, 0.0, std::nan("1"), 5.0};
  const std::array b{1.0, 2.5, -0.0, std::nan("2"), 4.0};
  const Difference found = difference_of(bytes_of(a), bytes_of(b), DType::Float64);
  EXPECT_EQ(found.elements, 5U);
  EXPECT_EQ(found.differing, 2U);
  EXPECT_EQ(found.max_absolute, 1);
  EXPECT_EQ(found.max_relative, 0.2);
  EXPECT_DOUBLE_EQ(found.mean_absolute, 0.3);
  EXPECT_EQ(difference_of(bytes_of(a), bytes_of(a), DType::Float64).differing, 0U);
}

TEST(Difference, IsInfiniteWhereOneIsNotFinite) {
  const Difference found =
      difference_of(bytes_of(std::array{1.0F, kNan}), bytes_of(std::array{kInfinity, 2.0F}), DType::Float32);
  EXPECT_EQ(found.differing, 2U);
  EXPECT_TRUE(std::isinf(found.max_absolute));
  EXPECT_TRUE(std::isinf(found.max_relative));
}

TEST(Difference, DetectsDifferencesOfIntegersBeyondDoublePrecision) {
  const std::array<std::int64_t, 1> a{(std::int64_t{1} << 60) + 1};
  const std::array<std::int64_t, 1> b{std::int64_t{1} << 60};
  EXPECT_EQ(difference_of(bytes_of(a), bytes_of(b), DType::Int64).differing, 1U);
}

}  // namespace
}  // namespace rollcall::checkpoint_tool
