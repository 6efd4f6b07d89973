#include "trainer/train/failure_report.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace rollcall::train {
namespace {

using std::chrono::seconds;

Error disk_full() { return fail("checkpoint", "", "disk full", "", ExitCode::InputOutput); }

TEST(FailureReport, RankZeroLingersLongerWhereTheOthersStillLive) {
  FailureReport report(0, 0, 2, "here");
  EXPECT_EQ(report.longest_linger(), seconds(1));
  EXPECT_EQ(report.own(disk_full()), to_int(ExitCode::InputOutput));
  EXPECT_EQ(report.longest_linger(), seconds(10));
}

TEST(FailureReport, IsToldByTheFirstRankThatHasOne) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  FailureReport first(2, 0, 3, "there");
  FailureReport second(1, 1, 3, "here");
  first.attach(store);
  second.attach(store);
  testing::internal::CaptureStderr();
  EXPECT_EQ(first.own(disk_full()), to_int(ExitCode::InputOutput));
  EXPECT_EQ(second.own(fail("loss", "nan", "is not finite", "", ExitCode::BadData)), to_int(ExitCode::BadData));
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("disk full"), std::string::npos) << told;
  EXPECT_NE(told.find("(rank 2 on there)"), std::string::npos) << told;
  EXPECT_EQ(told.find("is not finite"), std::string::npos) << told;
}

}  // namespace
}  // namespace rollcall::train
