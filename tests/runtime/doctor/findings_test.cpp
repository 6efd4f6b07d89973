#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/doctor/checks/check.h"
#include "runtime/doctor/checks/grouped.h"
#include "tests/support/doctor_world.h"

// Findings that cover several nodes or several problems.

namespace rollcall::doctor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(DoctorFindings, ReportsTheInstallationAndItsProblems) {
  JobContext context = healthy_world();
  context.launch_method.problems = {"/opt/spank_rollcall.so: was built for Slurm 22.05"};
  const std::vector<Checked> findings = run_checks(context, {"way"});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[0].finding.reason, HasSubstr("(site installation, /opt/spank_rollcall.so)"));
  EXPECT_EQ(findings[1].finding.status, Status::Notice);
  EXPECT_THAT(findings[1].finding.reason, HasSubstr("built for Slurm 22.05"));
}

TEST(DoctorFindings, NodesWithTheSameProblemShareAFinding) {
  JobContext context = healthy_world();
  for (TaskFacts& task : context.tasks) {
    task.node.scratch.error = "No such file or directory";
  }
  const std::vector<Checked> findings = run_checks(context, {"scratch"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings.front().finding.hosts, ElementsAre("jwb0001", "jwb0002"));
}

TEST(DoctorFindings, NodesWithDifferentProblemsHaveAFindingEach) {
  JobContext context = healthy_world();
  context.tasks[0].node.scratch.error = "Read-only file system";
  context.tasks[2].node.scratch.error = "No such file or directory";
  const std::vector<Checked> findings = run_checks(context, {"scratch"});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[0].finding.hosts, ElementsAre("jwb0001"));
  EXPECT_THAT(findings[1].finding.hosts, ElementsAre("jwb0002"));
  EXPECT_THAT(findings[1].finding.reason, HasSubstr("No such file or directory"));
}

TEST(DoctorFindings, InactiveAdapterDoesNotCountAsNearAGpu) {
  JobContext context = healthy_world();
  for (TaskFacts& task : context.tasks) {
    task.node.adapters = {{"mlx5_0", 0, false, 200}, {"mlx5_1", 1, true, 200}};  // the GPU is on NUMA node 0
  }
  const std::vector<Checked> findings = run_checks(context, {"devices"});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[0].finding.reason, HasSubstr("mlx5_0 has no active port"));
  EXPECT_THAT(findings[1].finding.reason, HasSubstr("no adapter on its NUMA node"));
}

TEST(DoctorFindings, HeadNameWithAnotherAddressOnOneNodeIsBad) {
  JobContext context = healthy_world();
  context.step.num_nodes = 3;
  TaskFacts third = context.tasks[2];
  third.host = "jwb0003";
  third.node.names.head[0].addresses = {{"10.0.0.9", true, false, false}};
  TaskFacts fourth = context.tasks[2];
  fourth.host = "jwb0004";
  context.tasks.push_back(third);
  context.tasks.push_back(fourth);
  const std::vector<Checked> findings = run_checks(context, {"head-name"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.front().finding.status, Status::Bad);
  EXPECT_THAT(findings.front().finding.hosts, ElementsAre("jwb0003"));
}

TEST(DoctorFindings, HeadNameMayResolveToItsAddressesInAnyOrder) {
  JobContext context = healthy_world();
  context.step.num_nodes = 3;
  TaskFacts third = context.tasks[2];
  third.host = "jwb0003";
  const network::Address one{"10.78.0.1", true, false, false};
  const network::Address other{"10.78.0.2", true, false, false};
  context.tasks[2].node.names.head[0].addresses = {one, other};
  for (const auto& answer : {std::vector{other, one}, std::vector{other}}) {  // another order, or a part of them
    third.node.names.head[0].addresses = answer;
    JobContext told = context;
    told.tasks.push_back(third);
    const std::vector<Checked> findings = run_checks(told, {"head-name"});
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_EQ(findings.front().finding.status, Status::Good) << findings.front().finding.reason;
  }
}

TEST(DoctorFindings, CollectivesHaveOneFindingPerBackend) {
  JobContext context = healthy_world();
  context.collectives.rows.push_back({"ucx", "all_reduce", 1024, 1e-5, 0.1, true});
  const std::vector<Checked> good = run_checks(context, {"collectives"});
  ASSERT_EQ(good.size(), 2U);
  EXPECT_EQ(good[0].finding.status, Status::Good);
  EXPECT_EQ(good[0].finding.reason,
            "gloo: all_reduce of 1.02 kB 120 us, 0.01 GB/s; all_reduce of 16.8 MB 20000 us, 0.8 GB/s");
  context.collectives.rows[2].correct = false;
  const Finding wrong = run_checks(context, {"collectives"})[1].finding;
  EXPECT_EQ(wrong.status, Status::Bad);
  EXPECT_THAT(wrong.reason, HasSubstr("ucx: all_reduce of 1024 bytes gave a wrong result"));
}

TEST(DoctorFindings, FailedCollectivesStateAReasonAndAnAction) {
  JobContext context = healthy_world();
  context.collectives = {"", "--backend: mpi: no MPI launcher started this process; try srun --mpi=pmix", {}};
  const Finding failed = run_checks(context, {"collectives"})[0].finding;
  EXPECT_EQ(failed.status, Status::Bad);
  EXPECT_EQ(failed.reason, "--backend: mpi: no MPI launcher started this process");
  EXPECT_EQ(failed.action, "try srun --mpi=pmix");
  context.collectives = {"there is only one rank", "", {}};
  EXPECT_EQ(run_checks(context, {"collectives"})[0].finding.status, Status::Absent);
}

TEST(DoctorFindings, BytesHaveUnitsAndThreeSignificantDigits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1 kB");
  EXPECT_EQ(bytes_text(80.1e9), "80.1 GB");
  EXPECT_EQ(bytes_text(999.7e6), "1 GB");
}

}  // namespace
}  // namespace rollcall::doctor
