#include "runtime/launchers/likely_rank.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace rollcall::launchers {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

Environment environment_of(const Variables& variables) {
  Environment environment;
  for (const auto& [name, value] : variables) {
    environment.set(name, value);
  }
  return environment;
}

const Variables kTaskOfSrun{{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "a"},
                            {"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "1"}, {"RANK", "9"}};

TEST(LikelyRank, IsSlurmsInATaskOfSrunAlone) {
  EXPECT_EQ(launched_rank(environment_of(kTaskOfSrun)), 3U);
  EXPECT_EQ(likely_local_rank(environment_of(kTaskOfSrun)), 1U);
  Environment bare = environment_of({{"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "1"}});
  EXPECT_EQ(launched_rank(bare), std::nullopt);
  EXPECT_EQ(likely_rank(bare), 3U);
  bare.set("RANK", "2");
  EXPECT_EQ(likely_rank(bare), 2U);
}

TEST(LikelyRank, IsMpisBeforeSlurmsWhoseTaskIsMpirunsDaemon) {
  for (const char* const name : {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    Environment environment = environment_of(kTaskOfSrun);
    environment.set(name, "5");
    EXPECT_EQ(launched_rank(environment), 5U) << name;
  }
}

TEST(LikelyRank, IsTorchrunsAmongTheWorkersOfATaskOfSrun) {
  Environment environment = environment_of(kTaskOfSrun);
  environment.set("TORCHELASTIC_RUN_ID", "1");
  environment.set("LOCAL_RANK", "4");
  EXPECT_EQ(launched_rank(environment), 9U);
  EXPECT_EQ(likely_local_rank(environment), 4U);
}

TEST(LikelyRank, MayBeTheUsersOwnWhereNoLauncherIs) {
  const Environment environment = environment_of({{"RANK", "2"}, {"LOCAL_RANK", "1"}});
  EXPECT_EQ(launched_rank(environment), std::nullopt);
  EXPECT_EQ(likely_rank(environment), 2U);
  EXPECT_EQ(likely_local_rank(environment), 1U);
  EXPECT_EQ(likely_rank(environment_of({{"RANK", "one"}})), 0U);
}

}  // namespace
}  // namespace rollcall::launchers
