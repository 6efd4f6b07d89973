#include "trainer/report/rank_grid.h"

#include <gtest/gtest.h>

#include <cmath>

namespace rollcall::report {
namespace {

std::vector<RankStep> equal_ranks(std::size_t ranks, double seconds) {
  return std::vector<RankStep>(ranks, RankStep{.data = 0, .forward = seconds});
}

/// Adds the records of a run of some minutes.
void add_often(RankGrid& grid, const std::vector<RankStep>& ranks) {
  for (std::int64_t step = 1; step <= 5; ++step) {
    grid.add(step, ranks);
  }
}

TEST(RankGrid, NamesTheStragglerAndTheCause) {
  RankGrid grid;
  auto ranks = equal_ranks(5, 0.1);
  ranks[3].data = 0.05;
  add_often(grid, ranks);
  const auto slow = grid.straggler();
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->rank, 3U);
  EXPECT_NEAR(slow->times(), 1.5, 1e-9);
  EXPECT_TRUE(slow->by_data);
  EXPECT_NEAR(*grid.cell(3, 0), 0.15, 1e-9);
  EXPECT_NEAR(*grid.cell(2, 0), 0.1, 1e-9);
}

TEST(RankGrid, IgnoresRanksWithLargerShares) {
  RankGrid grid;
  auto ranks = equal_ranks(3, 0.1);
  ranks[0].forward = 0.2;
  grid.set_equal_shares(false);
  add_often(grid, ranks);
  EXPECT_FALSE(grid.straggler());
  grid.set_equal_shares(true);
  EXPECT_EQ(grid.straggler()->rank, 0U);
}

TEST(RankGrid, IgnoresASinglePause) {
  RankGrid grid;
  auto ranks = equal_ranks(4, 0.1);
  for (std::int64_t step = 1; step <= 100; ++step) {
    ranks[2].forward = step <= 4 ? 2.0 : 0.1;
    grid.add(step, ranks);
  }
  ASSERT_TRUE(grid.slowest());
  EXPECT_EQ(grid.slowest()->rank, 2U);
  EXPECT_FALSE(grid.straggler());
}

TEST(RankGrid, FindsNoStragglerAmongSimilarRanks) {
  RankGrid grid;
  auto ranks = equal_ranks(4, 0.1);
  ranks[1].forward = 0.105;
  grid.add(1, ranks);
  EXPECT_FALSE(grid.straggler());
  RankGrid alone;
  alone.add(1, equal_ranks(1, 0.1));
  EXPECT_FALSE(alone.straggler());
  EXPECT_FALSE(RankGrid().straggler());
}

TEST(RankGrid, GroupsThousandsOfRanksInto64RowsByTheSlowest) {
  RankGrid grid;
  auto ranks = equal_ranks(4096, 0.1);
  ranks[4095].forward = 0.4;
  add_often(grid, ranks);
  EXPECT_EQ(grid.rows(), 64U);
  EXPECT_EQ(grid.ranks_of_row(), 64U);
  EXPECT_NEAR(*grid.cell(63, 0), 0.4, 1e-9);
  EXPECT_NEAR(*grid.cell(62, 0), 0.1, 1e-9);
  EXPECT_EQ(grid.straggler()->rank, 4095U);
}

TEST(RankGrid, MergesRecordsOfALongRunIntoFewColumns) {
  RankGrid grid;
  for (std::int64_t step = 1; step <= 10'000; ++step) {
    grid.add(step, equal_ranks(2, step > 5'000 ? 0.2 : 0.1));
  }
  EXPECT_LE(grid.columns().size(), RankGrid::kColumns);
  std::int64_t records = 0;
  std::int64_t before = 0;
  for (const auto& column : grid.columns()) {
    EXPECT_EQ(column.first_step, before + 1);
    before = column.last_step;
    records += column.records;
  }
  EXPECT_EQ(records, 10'000);
  EXPECT_NEAR(*grid.cell(0, 0), 0.1, 1e-9);
  EXPECT_NEAR(*grid.cell(1, grid.columns().size() - 1), 0.2, 1e-9);
}

TEST(RankGrid, RanksWithoutReadingsHaveNoValue) {
  RankGrid grid;
  auto ranks = equal_ranks(3, 0.1);
  ranks[1].forward = std::nan("");
  grid.add(1, ranks);
  EXPECT_FALSE(grid.cell(1, 0));
  EXPECT_TRUE(grid.cell(0, 0));
  EXPECT_EQ(grid.ranks()[1].records, 0);
}

}  // namespace
}  // namespace rollcall::report
