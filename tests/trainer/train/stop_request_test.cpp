#include "trainer/train/stop_request.h"

#include <gmock/gmock.h>

namespace rollcall::train {
namespace {

TEST(TimeLimit, IsNearFromTheConfiguredSecondsBeforeTheEnd) {
  TimeLimit limit(60, 1000, {});
  EXPECT_FALSE(limit.near(939));
  EXPECT_TRUE(limit.near(940));
  EXPECT_TRUE(limit.near(900));
  EXPECT_EQ(TimeLimit(60, 1000, {}).seconds_left(900), 40);
}

TEST(TimeLimit, IsQueriedAgainBeforeItEndsARun) {
  int asked = 0;
  TimeLimit limit(60, 1000, [&](double /*now*/) {
    ++asked;
    return std::optional(asked == 1 ? 2000.0 : 1999.0);
  });
  EXPECT_FALSE(limit.near(939));
  EXPECT_EQ(asked, 0);
  EXPECT_FALSE(limit.near(950));
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(limit.near(1940));
  EXPECT_EQ(asked, 2);
}

TEST(TimeLimit, KeepsTheKnownLimitIfSlurmDoesNotAnswer) {
  TimeLimit limit(60, 1000, [](double /*now*/) { return std::nullopt; });
  EXPECT_TRUE(limit.near(950));
}

TEST(TimeLimit, IsNeverNearWithoutAnEndTime) {
  TimeLimit limit(60, std::nullopt, {});
  EXPECT_FALSE(limit.near(1e12));
  EXPECT_FALSE(TimeLimit().near(1e12));
}

TEST(TimeLimit, ReturnsTheNoticePeriod) {
  EXPECT_EQ(TimeLimit(60, 1000, {}).notice(), 60);
  EXPECT_EQ(TimeLimit(60, std::nullopt, {}).notice(), std::nullopt);
  const Environment job(std::map<std::string, std::string, std::less<>>{{"SLURM_JOB_ID", "5"}});
  std::vector<std::string> warnings;
  EXPECT_EQ(time_limit_of_job({}, job, 0, warnings).notice(), kNoticeOfTemplates);
  EXPECT_EQ(time_limit_of_job({}, job, 1, warnings).notice(), std::nullopt);
  EXPECT_EQ(time_limit_of_job({}, Environment(), 0, warnings).notice(), std::nullopt);
}

TEST(SlowSave, WarnsIfItTakesMoreThanHalfTheNotice) {
  EXPECT_EQ(slow_save_warning(60, 120, false), "");
  EXPECT_EQ(slow_save_warning(1e9, std::nullopt, false), "");
  EXPECT_THAT(slow_save_warning(61, 120, false), testing::HasSubstr("try --signal=USR1@300 in the batch script"));
  EXPECT_THAT(slow_save_warning(61, 120, true), testing::HasSubstr("try --save-before-limit=300"));
}

}  // namespace
}  // namespace rollcall::train
