#include "runtime/job/job_facts.h"

#include <gtest/gtest.h>

#include <string>

namespace rollcall::job {
namespace {

TEST(TimeLeft, IsReadInSlurmsNotation) {
  EXPECT_EQ(parse_time_left("0:00"), 0);
  EXPECT_EQ(parse_time_left("3:04"), 184);
  EXPECT_EQ(parse_time_left("2:03:04"), 7384);
  EXPECT_EQ(parse_time_left("1-02:03:04"), 93784);
  for (const char* const text :
       {"", "UNLIMITED", "NOT_SET", "INVALID", "7", "1-2", "1-02:03", "a:b", "1:2:3:4", "-1:00"}) {
    EXPECT_EQ(parse_time_left(text), std::nullopt) << text;
  }
}

TEST(EndTime, IsReadFromSlurmJobEndTime) {
  const Environment environment({{"SLURM_JOB_END_TIME", "2000"}, {"SLURM_JOB_ID", "7"}});
  EXPECT_EQ(job_end_time(environment, 1500), 2000);
}

TEST(JobNameForSlurm, IncludesTheArrayTaskId) {
  EXPECT_EQ(job_name_for_slurm(Environment()), "");
  EXPECT_EQ(job_name_for_slurm(Environment({{"SLURM_JOB_ID", "7"}, {"SLURM_ARRAY_TASK_ID", ""}})), "7");
  EXPECT_EQ(job_name_for_slurm(
                Environment({{"SLURM_JOB_ID", "7"}, {"SLURM_ARRAY_JOB_ID", "7"}, {"SLURM_ARRAY_TASK_ID", "3"}})),
            "7_3");
  const Environment other({{"SLURM_JOB_ID", "8"}, {"SLURM_ARRAY_JOB_ID", "7"}, {"SLURM_ARRAY_TASK_ID", "3"}});
  EXPECT_EQ(job_name_for_slurm(other), "8") << "an element with a number of its own, or a job that one submitted";
}

TEST(EndTime, IsUnknownOutsideOfAJob) { EXPECT_EQ(job_end_time(Environment(), 1500), std::nullopt); }

}  // namespace
}  // namespace rollcall::job
