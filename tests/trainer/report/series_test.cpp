#include "trainer/report/series.h"

#include <gtest/gtest.h>

#include <cmath>

namespace rollcall::report {
namespace {

TEST(Series, KeepsEachValueWhileThereIsRoom) {
  Series series(4);
  for (const std::int64_t step : {10, 20, 30, 40}) {
    series.add(step, static_cast<double>(step) / 10);
  }
  ASSERT_EQ(series.points().size(), 4U);
  EXPECT_EQ(series.points()[2].first_step, 30);
  EXPECT_EQ(series.points()[2].mean(), 3);
  EXPECT_EQ(series.mean(), 2.5);
  EXPECT_EQ(series.most(), 4);
}

TEST(Series, MergesMillionsOfValuesKeepingPeaksAndSum) {
  Series series(100);
  constexpr std::int64_t kSteps = 1'000'000;
  double sum = 0;
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    const double value = step == 777'777 ? 1e6 : static_cast<double>(step % 7);
    sum += value;
    series.add(step, value);
  }
  EXPECT_LE(series.points().size(), 100U);
  EXPECT_GT(series.points().size(), 50U);
  EXPECT_EQ(series.sum(), sum);
  EXPECT_EQ(series.most(), 1e6);
  std::int64_t before = 0;
  std::int64_t count = 0;
  for (const Point& point : series.points()) {
    EXPECT_EQ(point.first_step, before + 1);  // without a gap
    before = point.last_step;
    count += point.count;
    EXPECT_EQ(point.most == 1e6, point.first_step <= 777'777 && point.last_step >= 777'777);
  }
  EXPECT_EQ(before, kSteps);
  EXPECT_EQ(count, kSteps);
}

TEST(Series, IgnoresNonFiniteValues) {
  Series series;
  series.add(1, std::nan(""));
  series.add(2, HUGE_VAL);
  EXPECT_TRUE(series.empty());
  EXPECT_EQ(series.mean(), 0);
  EXPECT_EQ(series.most(), 0);
}

TEST(Series, ForgetsRepeatedSteps) {
  Series series;
  for (std::int64_t step = 1; step <= 10; ++step) {
    series.add(step, 1);
  }
  EXPECT_EQ(series.forget_after(7), 3);
  ASSERT_EQ(series.points().back().last_step, 7);
  series.add(8, 5);
  EXPECT_EQ(series.sum(), 12);
  EXPECT_EQ(series.points().size(), 8U);
}

TEST(ThinnedPoints, KeepPeaksAndEnds) {
  std::vector<Point> points;
  for (std::int64_t i = 0; i < 10; ++i) {
    const double value = i == 6 ? 9 : 1;
    points.push_back({i, i, 1, value, value, value});
  }
  const auto fewer = thinned(points, 3);
  ASSERT_EQ(fewer.size(), 3U);
  EXPECT_EQ(fewer[0].first_step, 0);
  EXPECT_EQ(fewer[2].last_step, 9);
  EXPECT_EQ(fewer[1].most, 9);
  EXPECT_EQ(fewer[1].least, 1);
  EXPECT_EQ(fewer[1].count, 4);
  EXPECT_EQ(fewer[1].sum, 12);
  EXPECT_EQ(thinned(points, 10).size(), 10U);
  EXPECT_TRUE(thinned({}, 3).empty());
}

}  // namespace
}  // namespace rollcall::report
