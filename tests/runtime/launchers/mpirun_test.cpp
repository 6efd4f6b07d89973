#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/launchers/launcher.h"
#include "runtime/step/gather.h"
#include "tests/runtime/launched_task.h"

namespace rollcall::launchers {
namespace {

using step::gather;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Rank 2 of `mpirun -np 4` on one node, as Open MPI 4.1 describes it.
Environment mpirun_rank() {
  return Environment({{"OMPI_COMM_WORLD_RANK", "2"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                      {"OMPI_COMM_WORLD_NODE_RANK", "2"},
                      {"OMPI_MCA_ess_base_jobid", "1416888321"},
                      {"PMIX_NAMESPACE", "1416888321"},
                      {"PMIX_RANK", "2"}});
}

/// Rank 1 of `mpiexec -np 3` on one node, as MPICH's hydra describes it.
Environment hydra_rank() {
  return Environment(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"PMI_FD", "6"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "3"}});
}

/// The Slurm variables that ranks of mpirun inherit when a Slurm task started mpirun.
Environment inside_slurm(Environment ranks, std::uint32_t tasks) {
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

TEST(Ompi, ReadsTheRankFromOpenMpisVariables) {
  const auto gathered = gather(mpirun_rank(), nullptr);
  ASSERT_TRUE(gathered) << gathered.error().message();
  const job::JobFacts& facts = gathered->facts;
  EXPECT_EQ(facts.source, "ompi");
  EXPECT_EQ(facts.rank, 2U);
  EXPECT_EQ(facts.world_size, 4U);
  EXPECT_EQ(facts.local_rank, 2U);
  EXPECT_EQ(facts.local_world_size, 4U);
  EXPECT_EQ(facts.node_rank, 0U);
  EXPECT_EQ(facts.num_nodes, 1U);
  EXPECT_NE(facts.port_salt, 0U);
  EXPECT_THAT(facts.warnings, IsEmpty());
  EXPECT_THAT(sources(*gathered), ElementsAre("environment-", "pmix-", "ompi+", "pmi-", "slurm-", "single-"));
}

TEST(Ompi, NodeRankOnSeveralNodesIsAssumedWithAWarning) {
  const auto facts =
      facts_from_ompi(with(mpirun_rank(), {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}));
  EXPECT_EQ(facts->num_nodes, 2U);
  EXPECT_EQ(facts->node_rank, 1U);
  EXPECT_THAT(facts->warnings, ElementsAre(HasSubstr("assuming node ")));
}

TEST(Ompi, TwoMpirunsChooseDifferentPorts) {
  const auto one = facts_from_ompi(mpirun_rank());
  const auto other = facts_from_ompi(with(mpirun_rank(), {{"PMIX_NAMESPACE", "1416888322"}}));
  EXPECT_NE(one->port_salt, other->port_salt);
}

TEST(Ompi, DamagedVariablesAreNamed) {
  for (const auto& [name, value] : std::map<std::string, std::string>{{"OMPI_COMM_WORLD_RANK", "4"},
                                                                      {"OMPI_COMM_WORLD_SIZE", "x"},
                                                                      {"OMPI_COMM_WORLD_LOCAL_RANK", "4"},
                                                                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "-1"}}) {
    const auto gathered = gather(with(mpirun_rank(), {{name, value}}), nullptr);
    ASSERT_FALSE(gathered) << name;
    EXPECT_EQ(gathered.error().setting, name);
    EXPECT_EQ(gathered.error().kind, ErrorKind::Mismatch);
  }
}

TEST(Ompi, IgnoresTheStaleSlurmRank) {
  const auto gathered = gather(inside_slurm(mpirun_rank(), 1), nullptr);
  ASSERT_TRUE(gathered) << gathered.error().message();
  EXPECT_EQ(gathered->facts.source, "ompi");
  EXPECT_EQ(gathered->facts.rank, 2U);
  EXPECT_EQ(gathered->facts.world_size, 4U);
  EXPECT_EQ(gathered->facts.this_host, "jwb0007");
  EXPECT_FALSE(gathered->facts.step_id) << "the step is that of mpirun";
  EXPECT_EQ(gathered->facts.reserved_ports, "") << "the other ranks do not see them";
  EXPECT_THAT(sources(*gathered), ElementsAre("environment-", "pmix-", "ompi+", "pmi-", "slurm-", "single-"));
  EXPECT_THAT(gathered->trace[4].detail, HasSubstr("describes the task that started mpirun"));
  EXPECT_THAT(gathered->facts.warnings, IsEmpty()) << "this is how mpirun is meant to be used";
}

TEST(Ompi, SeveralMpirunsInOneStepAreAWarning) {
  const Environment rank_zero = with(inside_slurm(mpirun_rank(), 4), {{"OMPI_COMM_WORLD_RANK", "0"}});
  const auto gathered = gather(rank_zero, nullptr);  // srun -n4 mpirun -np 4: ranks and sizes happen to agree
  ASSERT_TRUE(gathered) << gathered.error().message();
  EXPECT_EQ(gathered->facts.source, "ompi");
  EXPECT_FALSE(gathered->facts.job_id) << "as in the other ranks, whose Slurm rank disagrees";
  EXPECT_THAT(gathered->facts.warnings, ElementsAre(HasSubstr("without mpirun")));
}

TEST(Ompi, IgnoresLeftOverVariablesUnderSlurmsPmixServer) {
  const Environment task =
      with(slurm_task(),
           {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_NAMESPACE", "slurm.pmix.4711.2"}});
  const auto gathered = gather(task, nullptr);
  EXPECT_EQ(gathered->facts.source, "slurm");
  EXPECT_EQ(gathered->facts.rank, 3U);
}

TEST(Pmi, ReadsTheRankFromHydrasVariables) {
  const auto gathered = gather(hydra_rank(), nullptr);
  ASSERT_TRUE(gathered) << gathered.error().message();
  EXPECT_EQ(gathered->facts.source, "pmi");
  EXPECT_EQ(gathered->facts.rank, 1U);
  EXPECT_EQ(gathered->facts.world_size, 3U);
  EXPECT_EQ(gathered->facts.local_rank, 1U);
  EXPECT_EQ(gathered->facts.local_world_size, 3U);
  EXPECT_EQ(gathered->facts.num_nodes, 1U);
}

TEST(Pmi, HydraInsideSlurmHasPrecedence) {
  const auto gathered = gather(inside_slurm(hydra_rank(), 1), nullptr);
  EXPECT_EQ(gathered->facts.source, "pmi");
  EXPECT_EQ(gathered->facts.rank, 1U);
  EXPECT_EQ(gathered->facts.world_size, 3U);
}

TEST(Pmi, HydraRankEqualToTheSlurmTaskIsStillAPmiRank) {
  const Environment alike = with(slurm_task(), {{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}, {"MPI_LOCALNRANKS", "2"}});
  const auto gathered = gather(alike, nullptr);
  ASSERT_TRUE(gathered) << gathered.error().message();
  EXPECT_EQ(gathered->facts.source, "pmi");
  EXPECT_FALSE(gathered->facts.is_slurms_step);
}

TEST(Pmi, HydraWhoseProxyIsATaskUnderPmi2HasItsOwnRanks) {
  const Environment rank = with(inside_slurm(hydra_rank(), 1), {{"PMI_JOBID", "4711.2"}});
  const auto gathered = gather(rank, nullptr);
  ASSERT_TRUE(gathered) << gathered.error().message();
  EXPECT_EQ(gathered->facts.rank, 1U);
  EXPECT_EQ(gathered->facts.world_size, 3U);
  EXPECT_EQ(gathered->facts.job_id, std::nullopt);
}

TEST(Pmi, LeftOverLocalRanksOfHydraDoNotReplaceThoseOfSlurmsPmi2) {
  for (const char* const rank : {"0", "1"}) {  // srun -N1 -n2 --mpi=pmi2
    const Environment task = with(inside_slurm(Environment(), 2), {{"SLURM_PROCID", rank},
                                                                   {"SLURM_LOCALID", rank},
                                                                   {"PMI_JOBID", "4711.2"},
                                                                   {"PMI_RANK", rank},
                                                                   {"PMI_SIZE", "2"},
                                                                   {"MPI_LOCALRANKID", "0"},
                                                                   {"MPI_LOCALNRANKS", "1"}});
    const auto gathered = gather(task, nullptr);
    ASSERT_TRUE(gathered) << gathered.error().message();
    EXPECT_EQ(std::to_string(gathered->facts.local_rank), rank);
    EXPECT_EQ(gathered->facts.local_world_size, 2U);
    EXPECT_TRUE(gathered->facts.is_slurms_step);
  }
}

TEST(Pmi, ReadsTheLocalRankFromPalsVariables) {
  const auto facts = facts_from_pmi(
      Environment({{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"PMI_LOCAL_RANK", "1"}, {"PMI_LOCAL_SIZE", "4"}}));
  EXPECT_EQ(facts->local_rank, 1U);
  EXPECT_EQ(facts->local_world_size, 4U);
}

TEST(Pmi, SlurmsPmi2KeepsSlurmsFactsAndRefusesAnotherRank) {
  const Environment task = with(slurm_task(), {{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}, {"PMI_JOBID", "4711.2"}});
  const auto gathered = gather(task, nullptr);
  EXPECT_EQ(gathered->facts.rank, 3U);
  EXPECT_EQ(gathered->facts.local_rank, 1U);
  EXPECT_EQ(gathered->facts.local_world_size, 2U);
  EXPECT_EQ(gathered->facts.head_host, "jwb0007");
  EXPECT_THAT(gathered->facts.warnings, IsEmpty());
  EXPECT_TRUE(gathered->facts.is_slurms_step);
  const auto changed = gather(with(task, {{"PMI_RANK", "2"}}), nullptr);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().kind, ErrorKind::Mismatch);
}

}  // namespace
}  // namespace rollcall::launchers
