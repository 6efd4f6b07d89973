#include "trainer/metrics/rank_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
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
      const std::vector<double> told = rank.contribution(step);
      sums.resize(told.size());
      for (std::size_t i = 0; i < told.size(); ++i) {
        sums[i] += told[i];
      }
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      all[rank].collect(step, sums);
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

TEST(RankTimes, RankZeroRecordsTheTimesOfAllRanks) {
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

TEST(RankTimes, SumsEnergyOfTheMeasuringRanksBetweenRecords) {
  RankTimes first(0, 2);
  RankTimes second(1, 2);
  const auto record_of = [&](std::int64_t step) {
    std::vector<double> sums = first.contribution(step);
    const std::vector<double> others = second.contribution(step);
    std::ranges::transform(sums, others, sums.begin(), std::plus());
    first.collect(step, sums);
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

/// Two ranks on GPUs, which exchange their values after every step.
class RanksOnGpus : public testing::Test {
 protected:
  void step() {
    step_ += 1;
    std::vector<double> sums = first_.contribution(step_);
    std::ranges::transform(sums, second_.contribution(step_), sums.begin(), std::plus());
    first_.collect(step_, sums);
    first_.add({.steps = 1}, {.peak_memory = 1});
  }
  std::map<std::string, std::string> record() {
    std::map<std::string, std::string> texts;
    const Record record = first_.take_record(step_).value_or(Record());
    for (const auto& [name, field] : record) {
      if (const auto* const raw = std::get_if<RawJson>(&field)) {
        texts[name] = raw->text;
      }
    }
    return texts;
  }

  std::int64_t step_ = 0;
  RankTimes first_{0, 2, true};
  RankTimes second_{1, 2, true};
};

TEST_F(RanksOnGpus, RankZeroRecordsLoadMemoryAndPower) {
  step();
  step();
  EXPECT_EQ(record().count("gpu_load"), 0U) << "nothing was read yet";
  EXPECT_EQ(first_.gpus().text(), "");
  constexpr double kGibibyte = 1 << 30;
  first_.add_gpu({1, 0.5, 100, 10 * kGibibyte, 80 * kGibibyte});
  step();
  EXPECT_EQ(first_.gpus().text(), "GPU 50 %  10.0/80.0 GiB") << "the watts of one are not known yet";
  second_.add_gpu({2, 2, 600, 20 * kGibibyte, 40 * kGibibyte});
  step();
  EXPECT_EQ(first_.gpus().text(), "GPU 75 %  20.0/40.0 GiB  400 W");
  first_.add_gpu({3, 0, 900, 12 * kGibibyte, 80 * kGibibyte});
  step();
  EXPECT_EQ(first_.gpus().text(), "GPU 50 %  20.0/40.0 GiB  600 W") << "of the last reading";
  const auto told = record();
  EXPECT_EQ(told.at("gpu_load"), "[0.125,1]") << "since the last record";
  EXPECT_EQ(told.at("gpu_watts"), "[250,300]");
  EXPECT_EQ(told.at("gpu_memory_mib"), "[1.229e+04,2.048e+04]");
  EXPECT_EQ(told.at("gpu_memory_total_mib"), "[8.192e+04,4.096e+04]");
  EXPECT_EQ(first_.mean_gpu_watts(), 550);
  step();
  EXPECT_EQ(record().count("gpu_load"), 0U);
  EXPECT_EQ(first_.gpus().text(), "GPU 50 %  20.0/40.0 GiB  600 W");
}

TEST_F(RanksOnGpus, PeakDeviceMemoryNamesItsRank) {
  constexpr double kMebibyte = 1 << 20;
  EXPECT_EQ(first_.most_device_memory(&DeviceMemory::allocated).bytes, 0);
  first_.set_device_memory({30 * kMebibyte, 50 * kMebibyte});
  second_.set_device_memory({40 * kMebibyte, 45 * kMebibyte});
  step();
  step();
  for (int i = 0; i < 2; ++i) {  // it does not begin anew
    const auto told = record();
    EXPECT_EQ(told.at("device_peak_allocated_mib"), "[30,40]");
    EXPECT_EQ(told.at("device_peak_reserved_mib"), "[50,45]");
    step();
  }
  const MostOfRanks allocated = first_.most_device_memory(&DeviceMemory::allocated);
  const MostOfRanks reserved = first_.most_device_memory(&DeviceMemory::reserved);
  EXPECT_EQ(allocated.rank, 1U);
  EXPECT_EQ(allocated.bytes, 40 * kMebibyte);
  EXPECT_EQ(reserved.rank, 0U);
  EXPECT_EQ(reserved.bytes, 50 * kMebibyte);
}

TEST_F(RanksOnGpus, UnreadableValuesAreNull) {
  const double none = std::nan("");
  first_.add_gpu({1, none, 100, none, none});
  second_.add_gpu({1, 0.5, none, none, none});
  step();
  step();
  const auto told = record();
  EXPECT_EQ(told.at("gpu_load"), "[null,0.5]");
  EXPECT_EQ(told.at("gpu_watts"), "[100,null]");
  EXPECT_EQ(told.count("gpu_memory_mib"), 0U);
  EXPECT_EQ(first_.gpus().text(), "GPU 50 %");
  EXPECT_TRUE(std::isnan(first_.mean_gpu_watts()));
}

TEST(RankTimes, RecordsNothingBeforeTheFirstStep) { EXPECT_TRUE(record_after(2, 1).is_null()); }

TEST(RankTimes, ManyRanksTakeTurnsInAMessageOfConstantLength) {
  constexpr std::uint32_t kRanks = 3 * RankTimes::kSlots;
  EXPECT_EQ(RankTimes(0, kRanks).contribution(1).size(), RankTimes(0, RankTimes::kSlots).contribution(1).size());
  const auto json = record_after(kRanks, 6);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(json["forward_seconds"][rank], rank + 1.0);
  }
  EXPECT_TRUE(record_after(kRanks, 2)["forward_seconds"][0].is_null());  // its turn came before its first step
}

}  // namespace
}  // namespace rollcall::metrics
