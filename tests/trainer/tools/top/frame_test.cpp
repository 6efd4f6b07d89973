#include "trainer/tools/top/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace rollcall::top {
namespace {

using testing::HasSubstr;

/// Columns that a terminal needs for UTF-8 text without escape sequences.
std::size_t columns_of(const std::string& line) {
  return static_cast<std::size_t>(
      std::ranges::count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

report::Run half_done() {
  report::Run run;
  run.name = "resnet\x1b[2J\u00e4";
  run.epochs = 2;
  run.steps_of_epoch = 100;
  run.hosts = {"node1"};
  run.job_ends = 1500;
  report::Start start;
  start.began = 990;
  start.first_step = 1000;
  start.last = 1200;
  run.starts.push_back(start);
  for (std::int64_t step = 1; step <= 50; ++step) {
    run.loss.add(step, 5.0 / static_cast<double>(step));
    run.top1.add(step, 0.5);
    run.images_per_second.add(step, 100);
    run.learning_rate.add(step, 0.1);
    for (report::Series& part : run.parts) {
      part.add(step, 0.1);
    }
  }
  run.step = 50;
  run.starts.back().to_step = 50;
  std::vector<report::RankStep> ranks(40, report::RankStep{.data = 0, .forward = 0.1});
  ranks[7].forward = 0.3;
  run.ranks.add(50, ranks);
  run.now = 1201;
  run.renewed = 1200;
  return run;
}

TEST(RemainingTime, UsesTheStepTimesOfThisStart) {
  report::Run run = half_done();
  EXPECT_DOUBLE_EQ(seconds_remaining(run), 600);  // 150 steps at 4 s
  run.starts.back().from_step = 25;               // it went on from there
  EXPECT_DOUBLE_EQ(seconds_remaining(run), 1200);
  run.starts.back().to_step = 25;
  EXPECT_LT(seconds_remaining(run), 0);
  EXPECT_LT(seconds_remaining(report::Run()), 0);
}

TEST(Frame, FitsEveryTerminal) {
  const report::Run run = half_done();
  for (const std::size_t width : {1U, 20U, 40U, 80U, 300U}) {
    for (const std::size_t height : {1U, 5U, 24U, 100U}) {
      const auto lines = frame(run, {.width = width, .height = height}, 1201);
      EXPECT_LE(lines.size(), height);
      for (const std::string& line : lines) {
        EXPECT_LE(columns_of(line), width) << line;
        EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;  // the name's is none either
      }
    }
  }
}

TEST(Frame, ShowsProgressAndSlowRanks) {
  const auto lines = frame(half_done(), {.width = 100, .height = 24}, 1201);
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  EXPECT_THAT(text, HasSubstr("25.0 %  step 50/200"));
  EXPECT_THAT(text, HasSubstr("ETA 10 min 00 s"));
  EXPECT_THAT(text, HasSubstr("the job ends in 4 min 59 s, earlier: the next job"));
  EXPECT_THAT(text, HasSubstr("     7  node1"));
  EXPECT_LT(text.find("     7  node1"), text.find("     0  node1"));
  EXPECT_EQ(lines.size(), 24U);
}

TEST(Frame, ShowsGpuReadingsIfKnown) {
  report::Run run = half_done();
  const auto text_of = [&run] {
    std::string text;
    for (const std::string& line : frame(run, {.width = 100, .height = 24}, 1201)) {
      text += line + "\n";
    }
    return text;
  };
  EXPECT_THAT(text_of(), testing::Not(HasSubstr("GPU")));
  run.gpu_load.add(50, 0.97);
  EXPECT_THAT(text_of(), HasSubstr("\nGPU 97 %\n"));
  run.gpu_memory.add(50, 72960);
  run.gpu_memory_total.add(50, 81920);
  run.gpu_watts.add(50, 684);
  run.images_per_joule.add(50, 3.125);
  EXPECT_THAT(text_of(), HasSubstr("\nGPU 97 %  71.2/80.0 GiB  684 W  3.12 images/J\n"));
}

TEST(SmallCurve, SpansMinimumToMaximum) {
  report::Series series;
  for (std::int64_t step = 0; step < 8; ++step) {
    series.add(step, static_cast<double>(step));
  }
  EXPECT_EQ(sparkline(series, 8, false), "_.-~=+*#");
  EXPECT_EQ(columns_of(sparkline(series, 4, true)), 4U);
  EXPECT_EQ(sparkline(report::Series(), 8, true), "");
}

}  // namespace
}  // namespace rollcall::top
