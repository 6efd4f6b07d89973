#include "trainer/metrics/rank_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

namespace rollcall::metrics {
namespace {

/// Ranks that do `steps` steps together, the all-reduce being a sum here; rank 0's record.
nlohmann::json record_after(std::uint32_t ranks, std::int64_t steps) {
  std::vector<RankTimes> all;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    all.emplace_back(rank, ranks);
  }
  for (std::int64_t step = 1; step <= steps; ++step) {
    std::vector<double> sums;
    for (RankTimes& rank : all) {
      const std::vector<double> told = rank.tell(step);
      sums.resize(told.size());
      for (std::size_t i = 0; i < told.size(); ++i) {
        sums[i] += told[i];
      }
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      all[rank].hear(step, sums);
      all[rank].add({.steps = 1, .data = 0.5, .forward = rank + 1.0, .backward = 2, .wait = 1},
                    {.peak_memory = (rank + 1) << 20,
                     .cpu_seconds = 100 + static_cast<double>(step) * (rank + 3.0),
                     .loading = 1,
                     .loader_seconds = rank == 2 ? 0 : rank + 2.0});
    }
  }
  const auto record = all[0].take_record(steps);
  if (!record) {
    return {};
  }
  EXPECT_FALSE(all[0].take_record(steps));  // it is empty now
  nlohmann::json json;
  for (const auto& [name, field] : *record) {
    if (const auto* const raw = std::get_if<RawJson>(&field)) {
      json[name] = nlohmann::json::parse(raw->text);
    }
  }
  return json;
}

TEST(RankTimes, EveryRanksSecondsAStepReachRankZero) {
  const auto json = record_after(3, 5);
  EXPECT_EQ(json["forward_seconds"], (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(json["data_seconds"], (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_EQ(json["peak_memory_mib"], (std::vector<double>{1, 2, 3}));
  // The first step's is not known: what came before it counts for none. Four of five steps were told.
  EXPECT_EQ(json["cpu_seconds"], (std::vector<double>{3 * 0.75, 4 * 0.75, 5 * 0.75}));
  EXPECT_EQ(json["loader_utilisation"][0], 0.5);
  EXPECT_EQ(json["loader_utilisation"][1], 0.3333);
  EXPECT_TRUE(json["loader_utilisation"][2].is_null()) << "it has no workers";
}

TEST(RankTimes, EnergyAddsUpBetweenRecordsAndIsTheMeasuringRanksOnly) {
  RankTimes first(0, 2);
  RankTimes second(1, 2);
  const auto record_of = [&](std::int64_t step) {
    std::vector<double> sums = first.tell(step);
    const std::vector<double> others = second.tell(step);
    std::ranges::transform(sums, others, sums.begin(), std::plus());
    first.hear(step, sums);
    const std::optional<Record> record = first.take_record(step);
    for (const auto& [name, field] : *record) {
      if (name == "energy_joules") {
        return std::get<RawJson>(field).text;
      }
    }
    return std::string("none");
  };
  first.add({.steps = 1}, {.peak_memory = 1});
  EXPECT_EQ(record_of(1), "none");
  second.add_energy(20);
  second.add_energy(5);
  first.add({.steps = 1}, {.peak_memory = 1});
  EXPECT_EQ(record_of(2), "[null,25]");
  second.add_energy(7);
  first.add({.steps = 1}, {.peak_memory = 1});
  EXPECT_EQ(record_of(3), "[null,7]");
}

TEST(RankTimes, NothingIsToldBeforeAStepWasDone) { EXPECT_TRUE(record_after(2, 1).is_null()); }

TEST(RankTimes, ManyRanksTakeTurnsInAMessageOfTheSameLength) {
  constexpr std::uint32_t kRanks = 3 * RankTimes::kPlaces;
  EXPECT_EQ(RankTimes(0, kRanks).tell(1).size(), RankTimes(0, RankTimes::kPlaces).tell(1).size());
  const auto json = record_after(kRanks, 6);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(json["forward_seconds"][rank], rank + 1.0);
  }
  EXPECT_TRUE(record_after(kRanks, 2)["forward_seconds"][0].is_null());  // its turn came before its first step
}

}  // namespace
}  // namespace rollcall::metrics
