#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/launchers/launcher.h"
#include "runtime/launchers/pmix.h"
#include "runtime/step/gather.h"
#include "tests/runtime/launched_task.h"

namespace rollcall::launchers {
namespace {

using step::gather;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Rank 2 of `mpirun -np 4` on one node, as Open MPI 4.1 describes it.
Environment pmix_rank() {
  return Environment({{"OMPI_COMM_WORLD_RANK", "2"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                      {"OMPI_COMM_WORLD_NODE_RANK", "2"},
                      {"OMPI_MCA_ess_base_jobid", "1416888321"},
                      {"PMIX_NAMESPACE", "1416888321"},
                      {"PMIX_RANK", "2"}});
}

/// The Slurm variables that ranks of mpirun inherit when a Slurm task started mpirun.
Environment inside_slurms_step(Environment ranks, std::uint32_t tasks) {
  const std::string number = std::to_string(tasks);
  return with(std::move(ranks), {{"SLURM_JOB_ID", "4711"},
                                 {"SLURM_STEP_ID", "2"},
                                 {"SLURM_PROCID", "0"},
                                 {"SLURM_LOCALID", "0"},
                                 {"SLURM_NODEID", "0"},
                                 {"SLURM_STEP_NUM_TASKS", number},
                                 {"SLURM_STEP_NUM_NODES", "1"},
                                 {"SLURM_STEP_NODELIST", "jwb0007"},
                                 {"SLURM_STEP_TASKS_PER_NODE", number},
                                 {"SLURM_STEP_RESV_PORTS", "17500-17501"},
                                 {"SLURMD_NODENAME", "jwb0007"}});
}

Environment task_under_pmix(const std::string& run = "slurm.pmix.4711.2") {
  return with(slurm_task(), {{"PMIX_NAMESPACE", run}});
}

TEST(PmixAndSlurm, UseSlurmsNodesWhenBothAgree) {
  FakePmix pmix(3, 5);
  const auto gathered = gather(task_under_pmix(), &pmix);
  EXPECT_EQ(gathered->facts.source, "pmix");
  EXPECT_EQ(gathered->facts.head_host, "jwb0007");
  EXPECT_EQ(gathered->facts.step_id, 2U);
  EXPECT_THAT(sources(*gathered), ElementsAre("environment-", "pmix+", "ompi-", "pmi-", "slurm+", "single-"));
  EXPECT_THAT(gathered->facts.warnings, IsEmpty());
}

TEST(PmixAndSlurm, HostOfRank0ComesFromPmixForArbitraryDistribution) {
  FakePmix pmix(3, 5);
  pmix.head = "jwb0010";
  const auto gathered = gather(with(task_under_pmix(), {{"SLURM_DISTRIBUTION", "arbitrary"}}), &pmix);
  EXPECT_EQ(gathered->facts.head_host, "jwb0010");
  EXPECT_THAT(gathered->facts.warnings, IsEmpty());
}

TEST(PmixAndSlurm, DifferentHostsAreAWarning) {
  FakePmix pmix(3, 5);
  pmix.head = "jwb0010";
  pmix.own = "jwb0011";
  const auto gathered = gather(task_under_pmix(), &pmix);
  EXPECT_EQ(gathered->facts.head_host, "jwb0007");
  EXPECT_THAT(gathered->facts.warnings,
              ElementsAre(HasSubstr("this host: is jwb0011 according to PMIx and jwb0009 according to Slurm"),
                          HasSubstr("host of rank 0")));
}

TEST(PmixAndSlurm, DifferentRanksFromSlurmsOwnServerAreAnError) {
  FakePmix rank(2, 5);
  const auto other_rank = gather(task_under_pmix(), &rank);
  ASSERT_FALSE(other_rank);
  EXPECT_EQ(other_rank.error().setting, "SLURM_PROCID");
  EXPECT_EQ(other_rank.error().kind, ErrorKind::Mismatch);
  EXPECT_THAT(other_rank.error().reason, HasSubstr("is 2 according to Slurm's own PMIx"));
  FakePmix size(3, 8);
  EXPECT_EQ(gather(task_under_pmix(), &size).error().setting, "SLURM_STEP_NUM_TASKS");
}

TEST(PmixAndSlurm, PmixServerOfAnotherLauncherHasPrecedence) {
  FakePmix pmix(2, 4, "1416888321");
  const auto gathered = gather(inside_slurms_step(pmix_rank(), 1), &pmix);
  ASSERT_TRUE(gathered) << gathered.error().message();
  EXPECT_EQ(gathered->facts.source, "pmix");
  EXPECT_EQ(gathered->facts.rank, 2U);
  EXPECT_THAT(gathered->facts.hosts, ElementsAre("jwb0007", "jwb0009"));
  EXPECT_FALSE(gathered->facts.job_id);
}

TEST(Pmix, WorksWithoutSlurm) {
  FakePmix pmix(1, 2);
  const auto gathered = gather(Environment(), &pmix);
  EXPECT_EQ(gathered->facts.source, "pmix");
  EXPECT_EQ(gathered->facts.num_nodes, 1U);
}

TEST(Pmix, NodesOfMpirunAreCountedFromTheHostsOfItsRanks) {
  FakePmix pmix(3, 4, "1416888321");
  pmix.node_id = 2;                                    // mpirun counts its own node, which runs no rank
  const auto gathered = gather(Environment(), &pmix);  // rank 0 is on one host, all others on another
  EXPECT_THAT(gathered->facts.hosts, ElementsAre("jwb0007", "jwb0009"));
  EXPECT_THAT(gathered->facts.tasks_per_node, ElementsAre(1U, 3U));
  EXPECT_EQ(gathered->facts.node_rank, 1U);
  EXPECT_EQ(gathered->facts.num_nodes, 2U);
}

TEST(Pmix, WithoutAServerItIsAnError) {
  if (Environment::of_this_process().get("PMIX_NAMESPACE")) {
    GTEST_SKIP() << "a PMIx server started this test";
  }
  const auto client = open_pmix();
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().setting, "PMIx");
  EXPECT_EQ(client.error().kind, ErrorKind::Unavailable);
}

}  // namespace
}  // namespace rollcall::launchers
