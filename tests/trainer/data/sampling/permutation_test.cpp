#include "trainer/data/sampling/sampler.h"

#include <gtest/gtest.h>
#include <map>
#include <vector>

namespace rollcall::data {
namespace {

std::vector<std::int64_t> listed(const Permutation& permutation) {
  std::vector<std::int64_t> elements;
  for (std::int64_t i = 0; i < permutation.size(); ++i) {
    elements.push_back(permutation(i));
  }
  return elements;
}

TEST(KeyedPermutation, IsABijectionForEverySize) {
  std::vector<std::int64_t> sizes{1023, 1024, 1025, 4095, 4097, 50'000, 65'536, 65'537};
  for (std::int64_t size = 1; size <= 300; ++size) {
    sizes.push_back(size);
  }
  for (const std::int64_t size : sizes) {
    std::vector<bool> seen(static_cast<std::size_t>(size));
    for (const std::int64_t element : listed(Permutation(size, 7, 3))) {
      ASSERT_GE(element, 0);
      ASSERT_LT(element, size);
      ASSERT_FALSE(seen[static_cast<std::size_t>(element)]) << element << " twice, size " << size;
      seen[static_cast<std::size_t>(element)] = true;
    }
  }
}

TEST(KeyedPermutation, DependsOnlyOnSeedEpochAndPurpose) {
  const auto order = listed(Permutation(1000, 1, 1));
  EXPECT_EQ(listed(Permutation(1000, 1, 1)), order);
  EXPECT_NE(listed(Permutation(1000, 2, 1)), order);
  EXPECT_NE(listed(Permutation(1000, 1, 2)), order);
  EXPECT_NE(listed(Permutation(1000, 1, 1, Purpose::Split)), order);
}

// Where element 0 of ten lands, over 20,000 epochs: each place 2,000 times, give or take 5 standard deviations (212).
TEST(KeyedPermutation, PlacesAnElementUniformly) {
  std::map<std::int64_t, int> first;
  std::map<std::int64_t, int> last;
  for (std::uint64_t epoch = 0; epoch < 20'000; ++epoch) {
    const Permutation permutation(10, 42, epoch);
    ++first[permutation(0)];
    ++last[permutation(9)];
  }
  for (std::int64_t element = 0; element < 10; ++element) {
    EXPECT_NEAR(first[element], 2000, 212) << element;
    EXPECT_NEAR(last[element], 2000, 212) << element;
  }
}

TEST(KeyedPermutation, LeavesNoOrderBetweenAdjacentElements) {
  const Permutation permutation(10'000, 5, 0);
  int rising = 0;
  int adjacent = 0;
  for (std::int64_t i = 0; i + 1 < permutation.size(); ++i) {
    rising += permutation(i) < permutation(i + 1) ? 1 : 0;
    adjacent += std::abs(permutation(i) - permutation(i + 1)) == 1 ? 1 : 0;
  }
  EXPECT_NEAR(rising, 5000, 150);
  EXPECT_LT(adjacent, 15);  // 2 expected
}

TEST(KeyedPermutation, ComputesAnyPositionOfAHugeSetDirectly) {
  const std::int64_t size = std::int64_t{1} << 40;
  const Permutation permutation(size, 1, 0);
  EXPECT_NE(permutation(0), permutation(size - 1));
  EXPECT_LT(permutation(size / 2), size);
}

}  // namespace
}  // namespace rollcall::data
