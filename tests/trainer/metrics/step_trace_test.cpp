#include "trainer/metrics/step_trace.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace rollcall::metrics {
namespace {

constexpr double kSecond = 1e-9;

TEST(TraceShares, CommunicationIsExposedWhenNoThreadComputes) {
  const TraceShares shares = shares_of({{"step: 7", 1, 0, 100},
                                        {"compute: layer1", 1, 10, 40},
                                        {"collective: all-reduce", 1, 30, 70},
                                        {"collective: all-reduce", 1, 35, 60},
                                        {"compute: layer1 backward", 2, 50, 60},
                                        {"data: read sample", 3, 0, 100}});
  EXPECT_DOUBLE_EQ(shares.steps, 100 * kSecond);
  EXPECT_DOUBLE_EQ(shares.compute, 40 * kSecond);
  EXPECT_DOUBLE_EQ(shares.communication, 40 * kSecond);
  EXPECT_DOUBLE_EQ(shares.exposed, 20 * kSecond);  // 40 to 50 and 60 to 70
}

TEST(TraceShares, WaitsWithinAComputationAreNotCompute) {
  const TraceShares shares = shares_of({{"step: 1", 1, 0, 100},
                                        {"compute: layer1", 1, 0, 100},
                                        {"wait: all-gather", 1, 20, 60},
                                        {"collective: all-gather", 1, 10, 60},
                                        {"compute: layer2", 2, 50, 55}});
  EXPECT_DOUBLE_EQ(shares.compute, 65 * kSecond);
  EXPECT_DOUBLE_EQ(shares.exposed, 35 * kSecond);
}

TEST(TraceShares, IgnoreTimeBetweenSteps) {
  const TraceShares shares = shares_of({{"step: 1", 1, 0, 100},
                                        {"step: 2", 1, 300, 400},
                                        {"compute: layer1", 1, 90, 320},
                                        {"collective: all-reduce", 1, 310, 500}});
  EXPECT_DOUBLE_EQ(shares.steps, 200 * kSecond);
  EXPECT_DOUBLE_EQ(shares.compute, 30 * kSecond);
  EXPECT_DOUBLE_EQ(shares.communication, 90 * kSecond);
  EXPECT_DOUBLE_EQ(shares.exposed, 80 * kSecond);
}

TEST(TraceShares, IgnoreCollectivesOfSaves) {
  const TraceShares shares = shares_of({{"step: 1", 1, 0, 100}, {"collective: barrier", 9, 0, 100}});
  EXPECT_DOUBLE_EQ(shares.communication, 0);
  EXPECT_DOUBLE_EQ(shares.exposed, 0);
}

TEST(TraceShares, MatchACountOfEveryNanosecond) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    constexpr std::int64_t kEnd = 60;
    std::vector<Span> spans = {{"step: 1", 0, 0, kEnd}, {"step: 1", 1, 0, 0}};
    for (int i = 0; i < 12; ++i) {
      const char* const category = std::vector{"compute: a", "collective: b", "wait: c", "data: d"}[random() % 4];
      const auto begin = static_cast<std::int64_t>(random() % kEnd);
      spans.push_back(
          {category, static_cast<std::int64_t>(random() % 2), begin, begin + static_cast<std::int64_t>(random() % 20)});
    }
    const auto within = [&](std::int64_t time, const char* category, std::int64_t thread) {
      return std::ranges::any_of(spans, [&](const Span& span) {
        return span.thread == thread && span.name.starts_with(category) && span.begin <= time && time < span.end;
      });
    };
    TraceShares counted;
    for (std::int64_t time = 0; time < kEnd; ++time) {
      const auto computes = [&](std::int64_t thread) {
        return within(time, "compute", thread) && !within(time, "wait", thread);
      };
      const bool computing = computes(0) || computes(1);
      const bool communicating = within(time, "collective", 0) || within(time, "collective", 1);
      counted.compute += computing ? kSecond : 0;
      counted.communication += communicating ? kSecond : 0;
      counted.exposed += communicating && !computing ? kSecond : 0;
    }
    const TraceShares shares = shares_of(spans);
    EXPECT_NEAR(shares.compute, counted.compute, 1e-12);
    EXPECT_NEAR(shares.communication, counted.communication, 1e-12);
    EXPECT_NEAR(shares.exposed, counted.exposed, 1e-12);
  }
}

TEST(ClockOffset, UsesTheShortestRoundTrip) {
  constexpr std::int64_t kAhead = 5'000'000;  // rank 0's clock
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<ClockReading> readings;
    std::int64_t shortest = 1'000'000;
    for (std::int64_t i = 0; i < 8; ++i) {
      const auto there = static_cast<std::int64_t>(random() % 400'000);
      const auto back = static_cast<std::int64_t>(random() % 400'000);
      const std::int64_t sent = i * 10'000'000;
      readings.push_back({sent, sent + there + kAhead, sent + there + back});
      shortest = std::min(shortest, there + back);
    }
    const ClockOffset found = clock_offset(readings);
    EXPECT_EQ(found.error, shortest / 2);
    EXPECT_LE(std::abs(found.offset - kAhead), found.error + 1);
  }
}

std::string thread_name(std::int64_t thread) { return "thread \"" + std::to_string(thread) + "\""; }

TEST(TraceFile, IsJsonInTheTimeBaseOfRank0) {
  const TracedRank first{0, "a", 0, {{"step: 1", 5, 2'000, 5'500}}};
  const TracedRank second{
      1, "b\\", -1'000, {{"collective: all-reduce of Float [2]", 6, 2'000, 4'000}, {"odd", 6, 3'000, 3'001}}};
  const nlohmann::json file =
      nlohmann::json::parse(trace_file({trace_events(first, thread_name), "", trace_events(second, thread_name)}));
  const nlohmann::json& events = file["traceEvents"];
  const nlohmann::json step = {{"name", "1"}, {"cat", "step"}, {"pid", 0},  {"tid", 5},
                               {"ph", "X"},   {"ts", 2.0},     {"dur", 3.5}};
  EXPECT_THAT(events, testing::Contains(step));
  const auto of_collective = [&](const char* phase, double time) {
    return nlohmann::json{{"name", "all-reduce of Float [2]"}, {"cat", "collective"}, {"pid", 1},  {"tid", 6},
                          {"id2", {{"local", "1"}}},           {"ph", phase},         {"ts", time}};
  };
  EXPECT_THAT(events, testing::Contains(of_collective("b", 1.0)));
  EXPECT_THAT(events, testing::Contains(of_collective("e", 3.0)));
  EXPECT_THAT(events,
              testing::Contains(nlohmann::json{
                  {"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", 6}, {"args", {{"name", "thread \"6\""}}}}));
  EXPECT_THAT(events,
              testing::Contains(nlohmann::json{
                  {"name", "process_labels"}, {"ph", "M"}, {"pid", 1}, {"tid", 0}, {"args", {{"labels", "b\\"}}}}));
}

}  // namespace
}  // namespace rollcall::metrics
