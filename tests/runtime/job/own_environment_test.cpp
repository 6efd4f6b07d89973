#include "runtime/job/own_environment.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace rollcall::job {
namespace {

/// The environment of a batch script of job 9, submitted by task 1 of step 3 of job 7, an array element.
Environment script_from_a_task() {
  return Environment({{"SLURM_JOB_ID", "9"},
                      {"SLURM_JOB_NODELIST", "n[1-2]"},
                      {"SLURMD_NODENAME", "n1"},
                      {"SLURM_PROCID", "0"},
                      {"SLURM_STEP_ID", "3"},
                      {"SLURM_STEPID", "3"},
                      {"SLURM_STEP_NODELIST", "n[1-2]"},
                      {"SLURM_STEP_NUM_TASKS", "2"},
                      {"SLURM_STEP_GPUS", "1"},
                      {"SLURM_HET_SIZE", "2"},
                      {"SLURM_JOB_ID_HET_GROUP_0", "7"},
                      {"SLURM_JOB_NODELIST_HET_GROUP_1", "n2"},
                      {"SLURM_ARRAY_JOB_ID", "6"},
                      {"SLURM_ARRAY_TASK_ID", "5"},
                      {"SLURM_RESTART_COUNT", "4"},
                      {"SLURM_JOB_END_TIME", "2000"},
                      {"PMIX_NAMESPACE", "slurm.pmix.7.3"},
                      {"PMIX_RANK", "1"},
                      {"PMI_JOBID", "7.3"},
                      {"PMI_RANK", "1"},
                      {"HOME", "/home/a"}});
}

Environment with(Environment environment, const std::map<std::string, std::string>& values) {
  for (const auto& [name, value] : values) {
    environment.set(name, value);
  }
  return environment;
}

TEST(OwnEnvironment, BatchScriptHasNoVariablesOfTheSubmittingStep) {
  const StepEvidence evidence{.step = StepOfProcess{9, "batch"}, .is_array_element = false, .restarts = 0};
  const Environment own = without_inherited_variables(script_from_a_task(), evidence);
  EXPECT_EQ(own.variables(), Environment({{"SLURM_JOB_ID", "9"},
                                          {"SLURM_JOB_NODELIST", "n[1-2]"},
                                          {"SLURMD_NODENAME", "n1"},
                                          {"SLURM_PROCID", "0"},
                                          {"SLURM_STEP_ID", "4294967291"},
                                          {"SLURM_JOB_ID_HET_GROUP_0", "7"},
                                          {"SLURM_JOB_END_TIME", "2000"},
                                          {"HOME", "/home/a"}})
                                 .variables());
}

TEST(OwnEnvironment, TaskKeepsTheVariablesThatSlurmSet) {
  const Environment task =
      with(script_from_a_task(),
           {{"SLURM_JOB_ID_HET_GROUP_0", "9"}, {"PMIX_NAMESPACE", "slurm.pmix.10.3"}, {"PMI_JOBID", "9.3"}});
  const StepEvidence second_component{.step = StepOfProcess{10, "3"}, .is_array_element = true, .restarts = 4};
  EXPECT_EQ(without_inherited_variables(task, second_component).variables(), task.variables());
  EXPECT_EQ(without_inherited_variables(task, {}).variables(), task.variables());
}

TEST(OwnEnvironment, SallocInsideAStepHasNoTaskVariables) {
  const StepEvidence evidence{.step = StepOfProcess{7, "3"}};
  const Environment own = without_inherited_variables(script_from_a_task(), evidence);
  for (const char* const name : {"SLURM_STEP_ID", "SLURM_PROCID", "SLURMD_NODENAME", "SLURM_JOB_END_TIME"}) {
    EXPECT_EQ(own.get(name), std::nullopt) << name;
  }
}

TEST(OwnEnvironment, WithoutEvidenceComparesTheNodesOfStepAndJob) {
  const auto step_kept = [](const std::map<std::string, std::string>& values) {
    return without_inherited_variables(with(script_from_a_task(), values), {}).get("SLURM_STEP_NODELIST").has_value();
  };
  EXPECT_TRUE(step_kept({}));
  EXPECT_TRUE(step_kept({{"SLURM_STEP_NODELIST", "n1"}}));
  EXPECT_FALSE(step_kept({{"SLURM_STEP_NODELIST", "n[1-3]"}}));
  EXPECT_FALSE(step_kept({{"SLURM_STEP_NODELIST", "n2"}})) << "this node is not in it";
}

/// The variables of rank 1 of a torchrun or mpirun that submitted this job.
std::map<std::string, std::string> of_torchrun() {
  return {{"TORCHELASTIC_RUN_ID", "none"},
          {"TORCHELASTIC_ERROR_FILE", "/tmp/torchelastic_a/0/error.json"},
          {"RANK", "1"},
          {"WORLD_SIZE", "2"},
          {"ROLE_RANK", "1"},
          {"MASTER_ADDR", "n7"}};
}

std::map<std::string, std::string> of_mpirun() {
  return {{"OMPI_COMM_WORLD_RANK", "1"},
          {"OMPI_COMM_WORLD_SIZE", "2"},
          {"PMIX_NAMESPACE", "prterun-n7-123@1"},
          {"PMIX_RANK", "1"}};
}

/// As MPICH 4.0's mpiexec sets them.
std::map<std::string, std::string> of_hydra() {
  return {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", "8"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
}

TEST(OwnEnvironment, EmptiesVariablesOfALauncherOutsideTheStep) {
  const Environment job({{"SLURM_JOB_ID", "9"}, {"SLURM_PROCID", "0"}, {"PET_NNODES", "2"}});
  for (const auto& values : {of_torchrun(), of_mpirun(), of_hydra()}) {
    const Environment given = with(job, values);
    Environment own = without_inherited_variables(given, {.given = given});
    EXPECT_EQ(emptied_variables(own).size(), values.size());
    for (const std::string& name : emptied_variables(own)) {
      own.unset(name);
    }
    EXPECT_EQ(own.variables(), job.variables());
  }
}

TEST(OwnEnvironment, KeepsVariablesOfALauncherInsideTheStep) {
  const Environment job({{"SLURM_JOB_ID", "9"}});
  Environment rank = with(job, of_torchrun());
  EXPECT_EQ(without_inherited_variables(rank, {.given = job}).variables(), rank.variables());
  EXPECT_EQ(without_inherited_variables(rank, {}).variables(), rank.variables())
      << "nobody says what the step was given";
  const Environment given = rank;  // by a torchrun around it; one inside has the same default name, and as many ranks
  rank.set("TORCHELASTIC_ERROR_FILE", "/tmp/torchelastic_b/0/error.json");
  EXPECT_EQ(without_inherited_variables(rank, {.given = given}).variables(), rank.variables());
}

TEST(OwnEnvironment, KeepsVariablesOfAHydraInsideTheStepThatAreLikeThoseOfAnOuterOne) {
  const Environment rank = with(Environment({{"SLURM_JOB_ID", "9"}}), of_hydra());
  EXPECT_EQ(without_inherited_variables(rank, {.given = rank, .has_hydra = true}).variables(), rank.variables());
}

TEST(OwnEnvironment, KeepsVariablesOfSlurmsPmi2AndEmptiesThoseOfAnOuterHydra) {
  Environment given = with(Environment({{"SLURM_JOB_ID", "9"}, {"SLURM_STEP_ID", "3"}}), of_hydra());
  given.set("PMI_JOBID", "9.3");
  const Environment own = without_inherited_variables(given, {.step = StepOfProcess{9, "3"}, .given = given});
  EXPECT_EQ(own.get("PMI_RANK"), "1");
  EXPECT_EQ(own.get("MPI_LOCALRANKID"), "");
  EXPECT_EQ(emptied_variables(own), (std::vector<std::string>{"MPI_LOCALNRANKS", "MPI_LOCALRANKID"}));
}

TEST(OwnEnvironment, KeepsVariablesOfSlurmsCrayShastaAndEmptiesThoseOfAnOuterHydra) {
  const std::map<std::string, std::string> of_slurm{
      {"SLURM_JOB_ID", "9"},       {"SLURM_STEP_ID", "3"},    {"PMI_JOBID", "9"},      {"PMI_RANK", "0"},
      {"PMI_SIZE", "4"},           {"PMI_LOCAL_RANK", "0"},   {"PMI_LOCAL_SIZE", "2"}, {"PMI_UNIVERSE_SIZE", "4"},
      {"PMI_CONTROL_PORT", "200"}, {"PMI_SHARED_SECRET", "5"}};
  const Environment given = with(Environment({{"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}}), of_slurm);
  const Environment own = without_inherited_variables(given, {.step = StepOfProcess{9, "3"}, .given = given});
  EXPECT_EQ(own.variables(),
            with(Environment({{"MPI_LOCALRANKID", ""}, {"MPI_LOCALNRANKS", ""}}), of_slurm).variables());
  EXPECT_EQ(emptied_variables(own), (std::vector<std::string>{"MPI_LOCALNRANKS", "MPI_LOCALRANKID"}));
}

TEST(OwnEnvironment, EmptiesOnlyWhatHydraSets) {
  const Environment given = with(Environment({{"SLURM_JOB_ID", "9"}, {"PMI_SHARED_SECRET", "5"}}), of_hydra());
  const Environment own = without_inherited_variables(given, {.given = given});
  EXPECT_EQ(own.get("PMI_RANK"), "");
  EXPECT_EQ(own.get("PMI_SHARED_SECRET"), "5");
}

TEST(OwnEnvironment, KeepsSlurmsPmixVariablesAndEmptiesThoseOfAnOuterMpirun) {
  Environment given = with(Environment({{"SLURM_JOB_ID", "9"}, {"SLURM_STEP_ID", "3"}}), of_mpirun());
  given.set("PMIX_NAMESPACE", "slurm.pmix.9.3");
  const Environment own = without_inherited_variables(given, {.step = StepOfProcess{9, "3"}, .given = given});
  EXPECT_EQ(own.get("PMIX_RANK"), "1");
  EXPECT_EQ(own.get("OMPI_COMM_WORLD_RANK"), "");
}

TEST(OwnEnvironment, RefusesAnEnvironmentBlockWithoutAFinalNul) {
  using namespace std::string_literals;
  EXPECT_EQ(environment_in("A=1\0B=\0\0C=3\0"s)->variables(),
            Environment({{"A", "1"}, {"B", ""}, {"C", "3"}}).variables());
  for (const std::string& without : {""s, "A=1"s, "A=1\0B=2"s, "the title of a program"s}) {
    EXPECT_FALSE(environment_in(without)) << without;
  }
}

TEST(OwnEnvironment, IsUnchangedOutsideAJob) {
  Environment shell = script_from_a_task();
  shell.unset("SLURM_JOB_ID");
  EXPECT_EQ(without_inherited_variables(shell, {.step = StepOfProcess{9, "batch"}}).variables(), shell.variables());
}

TEST(StepOfProcess, IsReadFromTitlesAndCgroups) {
  EXPECT_EQ(step_in_title("slurmstepd: [9.batch]      "), (StepOfProcess{9, "batch"}));
  EXPECT_EQ(step_in_title("slurmstepd: [10.0]"), (StepOfProcess{10, "0"}));
  EXPECT_EQ(step_in_title("slurmstepd: [10.0+1]"), (StepOfProcess{10, "0"})) << "srun A : B in an ordinary job";
  EXPECT_EQ(step_in_title(std::string("slurmstepd\0infinity", 19)), std::nullopt);
  EXPECT_EQ(step_in_cgroups("0::/system.slice/slurmstepd.scope/job_9/step_batch/user/task_special\n"),
            (StepOfProcess{9, "batch"}));
  EXPECT_EQ(step_in_cgroups("9:name=systemd:/\n4:memory:/slurm/uid_1000/job_9/step_0/task_1\n"),
            (StepOfProcess{9, "0"}));
  EXPECT_EQ(step_in_cgroups("0::/user.slice/job_seekers\n"), std::nullopt);
}

}  // namespace
}  // namespace rollcall::job
