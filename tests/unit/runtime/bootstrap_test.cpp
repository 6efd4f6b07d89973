#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "runtime/bootstrap/gather.h"
#include "runtime/bootstrap/pmix_client.h"
#include "runtime/bootstrap/slurm.h"
#include "runtime/bootstrap/world.h"
#include "runtime/job/marker.h"
#include "runtime/settings/launch_settings.h"
#include "tests/unit/runtime/launched_task.h"

namespace rollcall::bootstrap {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Slurm, FactsAreTheSteps) {
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
    EXPECT_EQ(facts_from_slurm(batch).error().exit_code, ExitCode::Unavailable) << step;
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
    EXPECT_EQ(facts.error().exit_code, ExitCode::Mismatch);
  }
}

TEST(Slurm, ArbitraryDistributionHidesRankZerosHostHonestly) {
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

TEST(Slurm, TenThousandNodesAreOneWorld) {
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

TEST(Slurm, AHetStepWhoseOrderIsNotToldHidesRankZerosHostHonestly) {
  Environment task = het_task();
  task.unset("SLURM_JOB_NODELIST_HET_GROUP_1");
  const auto facts = facts_from_slurm(task);
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->head_host, "");
  EXPECT_FALSE(facts->head_known_to_all);
  EXPECT_EQ(facts->local_world_size, 2U);  // n1's, though n2 stands at its node rank in the sorted list
}

TEST(World, AComponentIsAWorldWhereAskedFor) {
  settings::Settings settings(settings::launch_table());
  auto facts = facts_from_slurm(het_task());
  ASSERT_TRUE(choose_world(het_task(), settings, *facts));
  EXPECT_EQ(facts->world_size, 4U);
  ASSERT_TRUE(settings.set("world", "component", "test"));
  for (int times = 0; times < 2; ++times) {
    ASSERT_TRUE(choose_world(het_task(), settings, *facts));
    EXPECT_EQ(facts->rank, 1U);
    EXPECT_EQ(facts->world_size, 3U);
    EXPECT_EQ(facts->node_rank, 0U);
    EXPECT_EQ(facts->num_nodes, 2U);
    EXPECT_EQ(facts->head_host, "n1");
    EXPECT_EQ(facts->first_rank, 1U);
    EXPECT_EQ(facts->world_index, 1U);
  }
  auto ordinary = facts_from_slurm(slurm_task());
  ASSERT_TRUE(choose_world(slurm_task(), settings, *ordinary));
  EXPECT_EQ(ordinary->world_size, 5U);
}

TEST(World, RanksOfAComponentAreCountedFromItsFirst) {
  settings::Settings settings(settings::launch_table());
  ASSERT_TRUE(settings.set("world", "component", "test"));
  const Environment task = with(het_task(), {{"SLURM_STEP_TASKS_PER_NODE", "2,1,3"},  // n3, the first, has three
                                             {"SLURM_STEP_NUM_TASKS", "6"},
                                             {"SLURM_PROCID", "4"}});
  auto facts = facts_from_slurm(task);
  ASSERT_TRUE(facts) << facts.error().message();
  ASSERT_TRUE(choose_world(task, settings, *facts));
  EXPECT_EQ(facts->rank, 1U);
  EXPECT_EQ(facts->first_rank, 3U);
  EXPECT_EQ(facts->world_size, 3U);
}

TEST(World, AnUnknownComponentIsAnError) {
  settings::Settings settings(settings::launch_table());
  ASSERT_TRUE(settings.set("world", "component", "test"));
  Environment task = het_task();
  task.unset("SLURM_JOB_NODELIST_HET_GROUP_1");
  auto facts = facts_from_slurm(task);
  const auto chosen = choose_world(task, settings, *facts);
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().setting, "world");
}

TEST(Slurm, PmixRankIsACrossCheck) {
  EXPECT_THAT(facts_from_slurm(with(slurm_task(), {{"PMIX_RANK", "3"}}))->warnings, IsEmpty());
  const auto facts = facts_from_slurm(with(slurm_task(), {{"PMIX_RANK", "4"}}));
  EXPECT_EQ(facts->rank, 3U);
  EXPECT_THAT(facts->warnings, ElementsAre(HasSubstr("PMIX_RANK")));
}

TEST(Gather, WithoutAnySourceItIsOneProcess) {
  const auto gathered = gather(Environment(), nullptr);
  EXPECT_EQ(gathered->facts.source, "single");
  EXPECT_EQ(gathered->facts.world_size, 1U);
  EXPECT_THAT(sources(*gathered), ElementsAre("environment-", "pmix-", "ompi-", "pmi-", "slurm-", "single+"));
}

TEST(Gather, SlurmAnswersInATask) {
  const auto gathered = gather(slurm_task(), nullptr);
  EXPECT_EQ(gathered->facts.source, "slurm");
  EXPECT_THAT(sources(*gathered), ElementsAre("environment-", "pmix-", "ompi-", "pmi-", "slurm+", "single-"));
}

TEST(Gather, ExplicitValuesAloneAreEnough) {
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

TEST(Gather, ANodeRankBeyondEvenlyFilledNodesMeansMoreNodes) {
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
    EXPECT_EQ(gathered.error().exit_code, ExitCode::Mismatch);
  }
}

TEST(Gather, SlurmsRicherFactsAreTakenWhereExplicitValuesAgree) {
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
    EXPECT_EQ(gathered.error().exit_code, ExitCode::Mismatch);
  }
}

TEST(Gather, ValuesThatAnotherRollcallSetDoNotCountAsExplicit) {
  const Environment outer = with(
      slurm_task(), {{"RANK", "0"},
                     {"WORLD_SIZE", "1"},
                     {"ROLLCALL_SET", job::to_text({{"RANK", job::fnv1a("0")}, {"WORLD_SIZE", job::fnv1a("1")}})}});
  EXPECT_EQ(gather(outer, nullptr)->facts.rank, 3U);
}

TEST(Gather, TorchrunsWorkersAreAWorldOfTheirOwn) {
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

TEST(Pmix, WithoutAServerItIsAnError) {
  if (Environment::of_this_process().get("PMIX_NAMESPACE")) {
    GTEST_SKIP() << "a PMIx server started this test";
  }
  const auto client = open_pmix();
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().setting, "PMIx");
  EXPECT_EQ(client.error().exit_code, ExitCode::Unavailable);
}

}  // namespace
}  // namespace rollcall::bootstrap
