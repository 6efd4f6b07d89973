#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "runtime/launchers/slurm.h"
#include "runtime/step/gather.h"
#include "tests/runtime/launched_task.h"

namespace rollcall::launchers {
namespace {

using step::gather;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Slurm, ReadsTheFactsOfTheStep) {
  const auto facts =
      facts_from_slurm(with(slurm_task(), {{"SLURM_RESTART_COUNT", "2"}, {"SLURM_JOB_NODELIST", "jwb[0001-0099]"}}));
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->source, "slurm");
  EXPECT_EQ(facts->job_id, 4711U);
  EXPECT_EQ(facts->step_id, 2U);
  EXPECT_EQ(facts->restart_count, 2U);
  EXPECT_EQ(facts->rank, 3U);
  EXPECT_EQ(facts->world_size, 5U);
  EXPECT_EQ(facts->local_rank, 1U);
  EXPECT_EQ(facts->local_world_size, 2U);
  EXPECT_EQ(facts->node_rank, 1U);
  EXPECT_EQ(facts->num_nodes, 3U);
  EXPECT_THAT(facts->hosts, ElementsAre("jwb0007", "jwb0009", "jwb0010"));
  EXPECT_THAT(facts->tasks_per_node, ElementsAre(2U, 2U, 1U));
  EXPECT_EQ(facts->head_host, "jwb0007");
  EXPECT_EQ(facts->this_host, "jwb0009");
  EXPECT_EQ(facts->reserved_ports, "17500-17501");
  EXPECT_THAT(facts->warnings, IsEmpty());
}

TEST(Slurm, BatchInteractiveAndExternStepsDecline) {
  for (const char* step : {"4294967290", "4294967291", "4294967292", "4294967293", "-5", "-6"}) {
    const Environment batch = with(slurm_task(), {{"SLURM_STEP_ID", step}});
    EXPECT_TRUE(why_not_a_slurm_task(batch)) << step;
    EXPECT_EQ(facts_from_slurm(batch).error().kind, ErrorKind::Unavailable) << step;
    EXPECT_EQ(gather(batch, nullptr)->facts.source, "single") << step;
  }
  for (const char* name : {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NODELIST"}) {
    Environment incomplete = slurm_task();
    incomplete.unset(name);
    EXPECT_THAT(why_not_a_slurm_task(incomplete).value_or(""), HasSubstr(name));
  }
}

TEST(Slurm, ContradictoryOrDamagedVariablesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases{{"SLURM_PROCID", "5"},
                                                               {"SLURM_PROCID", "x"},
                                                               {"SLURM_LOCALID", "2"},
                                                               {"SLURM_NODEID", "3"},
                                                               {"SLURM_STEP_NUM_TASKS", ""},
                                                               {"SLURM_STEP_NUM_NODES", "2"},
                                                               {"SLURM_STEP_NODELIST", "a[1"},
                                                               {"SLURM_STEP_NODELIST", "a,b"},
                                                               {"SLURM_STEP_TASKS_PER_NODE", "2"},
                                                               {"SLURM_STEP_TASKS_PER_NODE", "2(x3)"},
                                                               {"SLURM_STEP_TASKS_PER_NODE", "?"}};
  for (const auto& [name, value] : cases) {
    const auto facts = facts_from_slurm(with(slurm_task(), {{name, value}}));
    ASSERT_FALSE(facts) << name << "=" << value;
    EXPECT_THAT(facts.error().message(), HasSubstr(name == "SLURM_STEP_NUM_NODES" ? "SLURM_STEP_NODELIST" : name));
    EXPECT_EQ(facts.error().kind, ErrorKind::Mismatch);
  }
}

TEST(Slurm, ArbitraryDistributionLeavesTheHostOfRank0Unknown) {
  const Environment arbitrary = with(slurm_task(), {{"SLURM_DISTRIBUTION", "arbitrary"}});
  for (const char* distribution : {"arbitrary", "arbitrary,Pack"}) {
    const auto other = facts_from_slurm(with(arbitrary, {{"SLURM_DISTRIBUTION", distribution}}));
    EXPECT_EQ(other->head_host, "");
    EXPECT_THAT(other->warnings, ElementsAre(HasSubstr("arbitrary")));
  }
  const auto rank_zero = facts_from_slurm(with(arbitrary, {{"SLURM_PROCID", "0"}}));
  EXPECT_EQ(rank_zero->head_host, "jwb0009");
  const auto one_node = facts_from_slurm(with(arbitrary, {{"SLURM_STEP_NUM_NODES", "1"},
                                                          {"SLURM_STEP_NODELIST", "jwb0009"},
                                                          {"SLURM_NODEID", "0"},
                                                          {"SLURM_STEP_TASKS_PER_NODE", "5"}}));
  EXPECT_EQ(one_node->head_host, "jwb0009");
  EXPECT_THAT(one_node->warnings, IsEmpty());
}

TEST(Slurm, ReadsAStepOfTenThousandNodes) {
  const auto facts = facts_from_slurm(with(slurm_task(), {{"SLURM_PROCID", "79999"},
                                                          {"SLURM_LOCALID", "7"},
                                                          {"SLURM_NODEID", "9999"},
                                                          {"SLURM_STEP_NUM_TASKS", "80000"},
                                                          {"SLURM_STEP_NUM_NODES", "10000"},
                                                          {"SLURM_STEP_NODELIST", "n[00001-10000]"},
                                                          {"SLURM_STEP_TASKS_PER_NODE", "8(x10000)"},
                                                          {"SLURMD_NODENAME", "n10000"}}));
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->head_host, "n00001");
  EXPECT_EQ(facts->hosts.size(), 10000U);
  EXPECT_EQ(facts->local_world_size, 8U);
}

/// Task 2 of `srun --het-group=0,1`, one task on n3 and three on n[1-2]: Slurm sorts the nodes across components.
Environment het_task() {
  return with(slurm_task(), {{"SLURM_HET_SIZE", "2"},
                             {"SLURM_JOB_NODELIST_HET_GROUP_0", "n3"},
                             {"SLURM_JOB_NODELIST_HET_GROUP_1", "n[1-2]"},
                             {"SLURM_STEP_NODELIST", "n[1-3]"},
                             {"SLURM_STEP_TASKS_PER_NODE", "2,1(x2)"},
                             {"SLURM_STEP_NUM_TASKS", "4"},
                             {"SLURM_PROCID", "2"},
                             {"SLURM_NODEID", "1"},
                             {"SLURMD_NODENAME", "n1"}});
}

TEST(Slurm, NodesOfAHetStepFollowItsComponents) {
  const auto facts = facts_from_slurm(het_task());
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_THAT(facts->hosts, ElementsAre("n3", "n1", "n2"));
  EXPECT_THAT(facts->tasks_per_node, ElementsAre(1U, 2U, 1U));
  EXPECT_THAT(facts->component_nodes, ElementsAre(1U, 2U));
  EXPECT_EQ(facts->head_host, "n3");
  EXPECT_EQ(facts->local_world_size, 2U);
}

TEST(Slurm, HetStepOfUnknownOrderLeavesTheHostOfRank0Unknown) {
  Environment task = het_task();
  task.unset("SLURM_JOB_NODELIST_HET_GROUP_1");
  const auto facts = facts_from_slurm(task);
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->head_host, "");
  EXPECT_FALSE(facts->head_known_to_all);
  EXPECT_EQ(facts->local_world_size, 2U);  // n1's, though n2 stands at its node rank in the sorted list
}

TEST(Slurm, WarnsWhenPmixRankDiffersFromSlurmProcid) {
  EXPECT_THAT(facts_from_slurm(with(slurm_task(), {{"PMIX_RANK", "3"}}))->warnings, IsEmpty());
  const auto facts = facts_from_slurm(with(slurm_task(), {{"PMIX_RANK", "4"}}));
  EXPECT_EQ(facts->rank, 3U);
  EXPECT_THAT(facts->warnings, ElementsAre(HasSubstr("PMIX_RANK")));
}

}  // namespace
}  // namespace rollcall::launchers
