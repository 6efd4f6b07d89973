#include "trainer/data/sampling/sampler.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <set>
#include <vector>

namespace rollcall::data {
namespace {

std::vector<std::int64_t> order_of(const EpochOrderOptions& options, std::uint64_t epoch) {
  EpochOrder order(options, epoch);
  std::vector<std::int64_t> samples;
  for (std::int64_t position = 0; position < options.size; ++position) {
    samples.push_back(order(position));
  }
  return samples;
}

TEST(SampleOrder, IsAPermutationForAnyWindow) {
  for (const std::int64_t size : {1, 2, 63, 64, 65, 1000, 4097}) {
    for (const std::int64_t window : {0, 1, 2, 7, 64, 999, 5000}) {
      std::vector<std::int64_t> samples = order_of({size, 3, true, window}, 2);
      std::sort(samples.begin(), samples.end());
      for (std::int64_t i = 0; i < size; ++i) {
        ASSERT_EQ(samples[static_cast<std::size_t>(i)], i) << "size " << size << ", window " << window;
      }
    }
  }
}

TEST(SampleOrder, PositionsMayBeQueriedInAnyOrder) {
  const EpochOrderOptions options{5000, 1, true, 16};
  const std::vector<std::int64_t> straight = order_of(options, 0);
  EpochOrder order(options, 0);
  for (std::int64_t position = 4999; position >= 0; position -= 7) {
    ASSERT_EQ(order(position), straight[static_cast<std::size_t>(position)]);
  }
}

TEST(SampleOrder, DiffersFromEpochToEpochAndFromSeedToSeed) {
  EXPECT_NE(order_of({1000, 1, true, 8}, 0), order_of({1000, 1, true, 8}, 1));
  EXPECT_NE(order_of({1000, 1, true, 8}, 0), order_of({1000, 2, true, 8}, 0));
}

/// How many windows are read from in a stretch of the epoch.
std::size_t windows_in(const std::vector<std::int64_t>& samples, std::size_t first, std::size_t count,
                       std::int64_t window) {
  std::set<std::int64_t> seen;
  for (std::size_t i = first; i < first + count; ++i) {
    seen.insert(samples[i] / window);
  }
  return seen.size();
}

TEST(SampleOrder, ReadsFromAFewWindowsAtATime) {
  const std::vector<std::int64_t> samples = order_of({100'000, 5, true, 50}, 0);
  for (std::size_t first = 0; first + 3200 <= samples.size(); first += 3200) {
    ASSERT_LE(windows_in(samples, first, 3200, 50), 2 * EpochOrder::kMixedWindows + 1);
  }
  EXPECT_GT(windows_in(order_of({100'000, 5, true, 0}, 0), 0, 3200, 50), 1500U);
}

TEST(SampleOrder, ShufflesTheOrderOfWindows) {
  const std::vector<std::int64_t> samples = order_of({100'000, 5, true, 50}, 0);
  double sum = 0;
  for (std::size_t i = 0; i < 3200; ++i) {
    sum += static_cast<double>(samples[i]) / 3200;
  }
  // Of 64 windows anywhere in the file: its middle, with a standard deviation of 3,600. The first ones would give
  // 1,600.
  EXPECT_NEAR(sum, 50'000, 15'000);
}

// Classes in a batch of 256 from a file sorted by class, 1000 classes of 100: on average 1000 * (1 - 0.999^256) = 226.3
// with a full shuffle, and about the 64 windows that are mixed with windows up to a class's size.
TEST(SampleOrder, MixesClassesOfASortedFileByTheNumberOfWindows) {
  const auto classes_of_a_batch = [](std::int64_t window) {
    const std::vector<std::int64_t> samples = order_of({100'000, 9, true, window}, 0);
    double sum = 0;
    for (std::size_t first = 0; first + 256 <= samples.size(); first += 256) {
      sum += static_cast<double>(windows_in(samples, first, 256, 100));
    }
    return sum / static_cast<double>(samples.size() / 256);
  };
  EXPECT_NEAR(classes_of_a_batch(0), 226.3, 2);
  EXPECT_NEAR(classes_of_a_batch(100), 64, 4);
  EXPECT_NEAR(classes_of_a_batch(10), 70, 10);
}

}  // namespace
}  // namespace rollcall::data
