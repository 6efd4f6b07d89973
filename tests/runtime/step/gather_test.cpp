#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "runtime/job/marker.h"
#include "runtime/step/gather.h"
#include "tests/runtime/launched_task.h"

namespace rollcall::step {
namespace {

using launchers::slurm_task;
using launchers::sources;
using launchers::with;
using testing::ElementsAre;

TEST(Gather, WithoutAnySourceItIsOneProcess) {
  const auto gathered = gather(Environment(), nullptr);
  EXPECT_EQ(gathered->facts.source, "single");
  EXPECT_EQ(gathered->facts.world_size, 1U);
  EXPECT_THAT(sources(*gathered), ElementsAre("environment-", "pmix-", "ompi-", "pmi-", "slurm-", "single+"));
}

TEST(Gather, WarnsInAJobOfSeveralNodesWithoutSrun) {
  const auto warnings = [](Environment environment, const char* nodes) {
    environment.set("SLURM_JOB_NUM_NODES", nodes);
    return gather(environment, nullptr)->facts.warnings;
  };
  const Environment batch_step({{"SLURM_JOB_ID", "4711"}});
  EXPECT_THAT(warnings(batch_step, "2"), ElementsAre(testing::HasSubstr("try srun --ddp")));
  EXPECT_THAT(warnings(batch_step, "1"), testing::IsEmpty());
  EXPECT_THAT(warnings(slurm_task(), "2"), testing::IsEmpty());
  EXPECT_THAT(warnings(Environment({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), "2"), testing::IsEmpty());
}

/// Values that rollcall set in one job's batch script must not count in another job that it submitted.
TEST(Gather, SingleProcessesOfTwoJobsHaveDifferentStepNames) {
  const auto name = [](const char* job) {
    return job::step_name(gather(Environment({{"SLURM_JOB_ID", job}}), nullptr)->facts);
  };
  EXPECT_EQ(name("7"), "job.7");
  EXPECT_EQ(name(""), "none");
}

TEST(Gather, SlurmIsTheSourceInATask) {
  const auto gathered = gather(slurm_task(), nullptr);
  EXPECT_EQ(gathered->facts.source, "slurm");
  EXPECT_THAT(sources(*gathered), ElementsAre("environment-", "pmix-", "ompi-", "pmi-", "slurm+", "single-"));
}

TEST(Gather, ExplicitVariablesAreSufficientWithoutALauncher) {
  const Environment torchrun(
      {{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}, {"GROUP_RANK", "1"}});
  const auto gathered = gather(torchrun, nullptr);
  EXPECT_EQ(gathered->facts.source, "environment");
  EXPECT_EQ(gathered->facts.rank, 5U);
  EXPECT_EQ(gathered->facts.world_size, 8U);
  EXPECT_EQ(gathered->facts.local_rank, 1U);
  EXPECT_EQ(gathered->facts.local_world_size, 4U);
  EXPECT_EQ(gathered->facts.node_rank, 1U);
  EXPECT_EQ(gathered->facts.num_nodes, 2U);
}

TEST(Gather, PortSaltDependsOnlyOnVariablesThatAllRanksShare) {
  const auto salt = [](const std::map<std::string, std::string, std::less<>>& more) {
    std::map<std::string, std::string, std::less<>> variables{{"RANK", "1"}, {"WORLD_SIZE", "2"}};
    variables.insert(more.begin(), more.end());
    return gather(Environment(variables), nullptr)->facts.port_salt;
  };
  EXPECT_EQ(salt({}), 0U);
  EXPECT_NE(salt({{"MASTER_PORT", "29500"}}), 0U);
  EXPECT_NE(salt({{"MASTER_PORT", "29500"}}), salt({{"MASTER_PORT", "29501"}}));
  EXPECT_NE(salt({{"TORCHELASTIC_RUN_ID", "a"}, {"MASTER_PORT", "29500"}}),
            salt({{"TORCHELASTIC_RUN_ID", "b"}, {"MASTER_PORT", "29500"}}));
  EXPECT_EQ(salt({{"MASTER_PORT", "29500"}, {"MASTER_ADDR", "localhost"}, {"TORCHELASTIC_RESTART_COUNT", "0"}}),
            salt({{"MASTER_PORT", "29500"}, {"MASTER_ADDR", "jwb0001"}, {"TORCHELASTIC_RESTART_COUNT", "1"}}));
}

TEST(Gather, NumberOfNodesIsAtLeastTheNodeRankPlusOne) {
  const Environment environment({{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"GROUP_RANK", "1"}});
  const auto gathered = gather(environment, nullptr);
  ASSERT_TRUE(gathered);
  EXPECT_EQ(gathered->facts.node_rank, 1);
  EXPECT_EQ(gathered->facts.num_nodes, 2);
}

TEST(Gather, AllRanksMayBeOnOneNode) {
  const auto gathered = gather(
      Environment({{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "3"}, {"LOCAL_WORLD_SIZE", "4"}}), nullptr);
  ASSERT_TRUE(gathered) << gathered.error().message();
  EXPECT_EQ(gathered->facts.num_nodes, 1U);
  EXPECT_EQ(gathered->facts.local_world_size, 4U);
}

TEST(Gather, ImpossibleExplicitValuesAreAMismatch) {
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"RANK", "8"}, {"WORLD_SIZE", "0"}, {"LOCAL_RANK", "9"}, {"LOCAL_WORLD_SIZE", "x"}, {"NODE_RANK", "-1"}}) {
    const auto gathered = gather(with(Environment({{"RANK", "1"}, {"WORLD_SIZE", "8"}}), {{name, value}}), nullptr);
    ASSERT_FALSE(gathered) << name;
    EXPECT_EQ(gathered.error().setting, name);
    EXPECT_EQ(gathered.error().kind, ErrorKind::Mismatch);
  }
}

TEST(Gather, SlurmsFactsAreUsedWhenExplicitValuesAgree) {
  const auto gathered = gather(with(slurm_task(), {{"RANK", "3"}, {"WORLD_SIZE", "5"}}), nullptr);
  EXPECT_EQ(gathered->facts.source, "slurm");
  EXPECT_EQ(gathered->facts.head_host, "jwb0007");
  EXPECT_THAT(sources(*gathered), ElementsAre("environment+", "pmix-", "ompi-", "pmi-", "slurm+", "single-"));
}

TEST(Gather, ExplicitValuesThatContradictSlurmAreAMismatch) {
  for (const auto& [name, value] : std::map<std::string, std::string>{{"RANK", "2"}, {"WORLD_SIZE", "8"}}) {
    const auto gathered =
        gather(with(with(slurm_task(), {{"RANK", "3"}, {"WORLD_SIZE", "5"}}), {{name, value}}), nullptr);
    ASSERT_FALSE(gathered);
    EXPECT_EQ(gathered.error().setting, name);
    EXPECT_EQ(gathered.error().kind, ErrorKind::Mismatch);
  }
}

TEST(Gather, Rank0AgreesWhenTheUsersValuesAreThoseOfRank0) {
  using Values = std::map<std::string, std::string>;
  EXPECT_TRUE(rank_0_agrees(with(slurm_task(), Values{{"RANK", "0"}})));
  EXPECT_TRUE(rank_0_agrees(with(slurm_task(), Values{{"RANK", "0"}, {"WORLD_SIZE", "5"}})));
  EXPECT_TRUE(rank_0_agrees(with(slurm_task(), Values{{"LOCAL_RANK", "0"}})));
  EXPECT_FALSE(rank_0_agrees(with(slurm_task(), Values{{"RANK", "2"}})));
  EXPECT_FALSE(rank_0_agrees(with(slurm_task(), Values{{"RANK", "0"}, {"WORLD_SIZE", "3"}})));
  EXPECT_FALSE(rank_0_agrees(with(slurm_task(), Values{{"WORLD_SIZE", "3"}})));
}

TEST(Gather, ValuesThatAnotherRollcallSetDoNotCountAsExplicit) {
  const Environment outer = with(
      slurm_task(), {{"RANK", "0"},
                     {"WORLD_SIZE", "1"},
                     {"ROLLCALL_SET", job::to_text({{"RANK", job::fnv1a("0")}, {"WORLD_SIZE", job::fnv1a("1")}})}});
  EXPECT_EQ(gather(outer, nullptr)->facts.rank, 3U);
}

TEST(Gather, TorchrunWorkersFormTheirOwnWorld) {
  const Environment worker = with(slurm_task(), {{"TORCHELASTIC_RUN_ID", "x"},
                                                 {"RANK", "3"},
                                                 {"WORLD_SIZE", "20"},
                                                 {"LOCAL_RANK", "3"},
                                                 {"LOCAL_WORLD_SIZE", "4"},
                                                 {"ROLLCALL_SET", job::to_text({{"RANK", job::fnv1a("3")}})}});
  const auto gathered = gather(worker, nullptr);
  ASSERT_TRUE(gathered) << gathered.error().message();
  EXPECT_EQ(gathered->facts.source, "environment");
  EXPECT_EQ(gathered->facts.world_size, 20U);
}

}  // namespace
}  // namespace rollcall::step
