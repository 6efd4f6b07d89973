#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "runtime/contract/env_table.h"
#include "tests/support/resolve_step.h"

namespace rollcall::resolve {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

/// The second of two tasks, each alone on its node.
Step one_task_a_node() {
  Step step;
  step.facts.rank = 1;
  step.facts.world_size = 2;
  step.facts.local_rank = 0;
  step.facts.local_world_size = 1;
  step.facts.tasks_per_node = {1, 1};
  step.network.interfaces.back().addresses = {
      {"fe80::2", false, false, true}, {"fd00::2", false, false, false}, {"10.78.0.2", true, false, false}};
  return step;
}

/// Every setting that makes a variable appear is on.
Step with_everything_on() {
  Step step = one_task_a_node();
  step.facts.rank = 0;
  step.set("interface.ucx", "mlx5_0:1");
  step.set("nccl.net", "AWS Libfabric");
  step.set("gpus.visible", "node");
  step.set("gpus.architectures", "8.0;9.0");
  step.set("venv", "/venv");
  step.set("debug", "on");
  step.set("cache.shared", "/shared");
  step.set("cache.local", "/local");
  step.set("cache.jax", "shared");
  step.user.set("SLURM_STEP_GPUS", "0");
  return step;
}

TEST(ResolveFrameworks, SetsAllVariablesOfTorchrun) {
  // Numbers that differ from one another, so that none stands for another: rank 7 of 9 on the last of three nodes.
  Step step;
  step.facts.rank = 7;
  step.facts.world_size = 9;
  step.facts.local_rank = 1;
  step.facts.local_world_size = 4;
  step.facts.node_rank = 2;
  step.facts.num_nodes = 3;
  step.facts.restart_count = 5;
  const Environment after = step.after();
  const std::vector<std::pair<const char*, const char*>> expected{{"RANK", "7"},
                                                                  {"WORLD_SIZE", "9"},
                                                                  {"LOCAL_RANK", "1"},
                                                                  {"LOCAL_WORLD_SIZE", "4"},
                                                                  {"GROUP_RANK", "2"},
                                                                  {"NODE_RANK", "2"},
                                                                  {"GROUP_WORLD_SIZE", "3"},
                                                                  {"ROLE_RANK", "7"},
                                                                  {"ROLE_WORLD_SIZE", "9"},
                                                                  {"ROLE_NAME", "default"},
                                                                  {"TORCHELASTIC_RESTART_COUNT", "5"},
                                                                  {"LOCAL_SIZE", "4"},
                                                                  {"CROSS_RANK", "2"},
                                                                  {"CROSS_SIZE", "3"}};
  for (const auto& [name, value] : expected) {
    EXPECT_EQ(after.get(name), value) << name;
  }
}

TEST(ResolveFrameworks, OneTorchrunPerNodeGetsThePetVariables) {
  Step step = one_task_a_node();
  step.user.set("MASTER_PORT", "23456");
  const Environment after = step.after();
  EXPECT_EQ(after.get("PET_NNODES"), "2");
  EXPECT_EQ(after.get("PET_NODE_RANK"), "1");
  EXPECT_EQ(after.get("PET_MASTER_ADDR"), "jwb0001i");
  EXPECT_EQ(after.get("PET_MASTER_PORT"), "23456");
  EXPECT_EQ(after.get("PET_LOCAL_ADDR"), "10.78.0.2");
  std::vector<network::Address>& addresses = step.network.interfaces.back().addresses;
  addresses.pop_back();
  EXPECT_EQ(step.after().get("PET_LOCAL_ADDR"), "fd00::2");
  addresses.pop_back();
  EXPECT_EQ(step.after().get("PET_LOCAL_ADDR"), std::nullopt);
}

TEST(ResolveFrameworks, RdzvConfIsHostIsOneForRank0AndUnsetElsewhere) {
  Step step = one_task_a_node();
  step.set("host.loopback", "refuse");
  EXPECT_EQ(step.after().get("PET_RDZV_CONF"), std::nullopt);  // is_host=0 would hold for --standalone, too
  step.facts.rank = 0;
  step.facts.node_rank = 0;
  EXPECT_EQ(step.after().get("PET_RDZV_CONF"), "is_host=1");
  step.facts.num_nodes = 1;
  step.facts.world_size = 1;
  step.facts.tasks_per_node = {1};
  EXPECT_EQ(step.after().get("PET_RDZV_CONF"), "is_host=1");
}

TEST(ResolveFrameworks, RdzvConfIsHostIsZeroForOtherNodesOnOneMachine) {
  Step step = one_task_a_node();
  step.set("host.loopback", "allow");
  EXPECT_EQ(step.after().get("PET_RDZV_CONF"), "is_host=0");
}

TEST(ResolveFrameworks, PetNodeRankFollowsTheRankOrder) {
  Step step = one_task_a_node();
  step.facts.rank = 0;  // -m arbitrary: rank 0 is on the step's second node
  step.facts.node_rank = 1;
  step.facts.head_host = step.facts.hosts[1];
  EXPECT_EQ(step.after().get("PET_NODE_RANK"), "0");
  EXPECT_EQ(step.after().get("PET_RDZV_CONF"), "is_host=1");
}

TEST(ResolveFrameworks, PetVariablesNeedSeveralNodesWithOneTaskEach) {
  Step several_tasks;
  EXPECT_FALSE(several_tasks.after().get("PET_NNODES"));
  EXPECT_FALSE(several_tasks.after().get("PET_RDZV_CONF"));
  Step one_node = one_task_a_node();
  one_node.facts.rank = 0;
  one_node.facts.num_nodes = 1;
  one_node.facts.world_size = 1;
  EXPECT_FALSE(one_node.after().get("PET_NNODES"));
  Step two_tasks_on_the_other = one_task_a_node();
  two_tasks_on_the_other.facts.world_size = 3;
  EXPECT_FALSE(two_tasks_on_the_other.after().get("PET_NNODES"));
}

TEST(ResolveFrameworks, VariableTableListsExactlyTheWrittenVariables) {
  const auto patch = with_everything_on().run();
  ASSERT_TRUE(patch) << patch.error().message();
  std::set<std::string, std::less<>> written;
  for (const EnvChange& change : patch->changes) {
    written.insert(change.name);
  }
  written.emplace("ACCELERATE_USE_CPU");  // where there is no GPU
  written.emplace(env::kPmixGds);         // written behind resolve: by rendezvous/exec_step.cpp
  for (const env::Variable& row : env::kVariables) {
    EXPECT_EQ(written.erase(std::string(row.name)) == 1, row.use != env::Use::Read) << row.name;
    EXPECT_EQ(row.value_from.empty(), row.use == env::Use::Read) << row.name;
    EXPECT_FALSE(row.meaning.empty() || row.used_by.empty()) << row.name;
  }
  EXPECT_THAT(written, IsEmpty());
}

TEST(ResolveFrameworks, VariablesOfTheNeverSetTableAreNotSet) {
  const auto patch = with_everything_on().run();
  ASSERT_TRUE(patch);
  for (const EnvChange& change : patch->changes) {
    for (const env::NeverSet& never : env::kNeverSet) {
      const bool family = never.name.ends_with('*');
      const std::string_view stem = never.name.substr(0, never.name.size() - (family ? 1 : 0));
      EXPECT_FALSE(family ? change.name.starts_with(stem) : change.name == stem) << change.name;
    }
  }
}

TEST(ResolveFrameworks, SetsJaxCoordinatorAddressAndProcessId) {
  Step step;
  step.facts.reserved_ports = "17500-17503";
  EXPECT_EQ(step.after().get("JAX_COORDINATOR_ADDRESS"), "jwb0001i:17500");
  EXPECT_EQ(step.after().get("JAX_NUM_PROCESSES"), "4");
  EXPECT_EQ(step.after().get("JAX_PROCESS_ID"), "3");
  step.user.set("MASTER_ADDR", "fd00::1");
  step.user.set("MASTER_PORT", "29400");
  EXPECT_EQ(step.after().get("JAX_COORDINATOR_ADDRESS"), "[fd00::1]:29400");
  step.user.set("MASTER_ADDR", "fd00:1:2:3:4:5:6:7");
  EXPECT_EQ(step.after().get("JAX_COORDINATOR_ADDRESS"), "[fd00:1:2:3:4:5:6:7]:29400");
  step.user.set("JAX_COORDINATOR_ADDRESS", "mine:1");
  EXPECT_EQ(step.after().get("JAX_COORDINATOR_ADDRESS"), "mine:1");
}

TEST(ResolveFrameworks, JaxLocalDeviceIdsFollowTheVisibleGpus) {
  Step step;
  EXPECT_EQ(step.after().get("JAX_LOCAL_DEVICE_IDS"), std::nullopt);
  step.user.set("CUDA_VISIBLE_DEVICES", "3");
  EXPECT_EQ(step.after().get("JAX_LOCAL_DEVICE_IDS"), "0");
  step.user.set("CUDA_VISIBLE_DEVICES", "0,1");  // shared by two tasks: JAX takes number LOCALID by itself
  EXPECT_EQ(step.after().get("JAX_LOCAL_DEVICE_IDS"), std::nullopt);
  step.facts.local_world_size = 1;
  step.facts.local_rank = 0;
  EXPECT_EQ(step.after().get("JAX_LOCAL_DEVICE_IDS"), "0,1");
}

TEST(ResolveFrameworks, WarnsWhenLocalRankIsNotAnIndexOfAVisibleGpu) {
  Step step;  // two tasks a node
  const auto warns = [&] {
    return testing::Value(step.run()->warnings, testing::Contains(testing::HasSubstr("LOCAL_RANK: each of the")));
  };
  EXPECT_FALSE(warns());
  for (const auto& [visible, is_warned] :
       std::map<std::string, bool>{{"3", true}, {"0,1", false}, {"NoDevFiles", false}}) {
    step.user.set("CUDA_VISIBLE_DEVICES", visible);
    EXPECT_EQ(warns(), is_warned) << visible;
  }
  step.user.set("CUDA_VISIBLE_DEVICES", "1");
  step.facts.step_gpus = "0,1";
  step.set("gpus.visible", "node");
  EXPECT_FALSE(warns());
}

TEST(ResolveFrameworks, AccelerateUseCpuIsSetWithoutAGpu) {
  Step step;
  EXPECT_EQ(step.after().get("ACCELERATE_USE_CPU"), std::nullopt);
  step.facts.sees_accelerator = false;
  EXPECT_EQ(step.after().get("ACCELERATE_USE_CPU"), "true");
  step.user.set("CUDA_VISIBLE_DEVICES", "0");  // Slurm gave it one
  EXPECT_EQ(step.after().get("ACCELERATE_USE_CPU"), std::nullopt);
  step.facts.sees_accelerator = true;
  for (const char* const none : {"NoDevFiles", "-1"}) {
    step.user.set("CUDA_VISIBLE_DEVICES", none);
    EXPECT_EQ(step.after().get("ACCELERATE_USE_CPU"), "true") << none;
  }
  step.user.set("ACCELERATE_USE_CPU", "false");
  EXPECT_EQ(step.after().get("ACCELERATE_USE_CPU"), "false");
  Step alone;
  alone.facts.sees_accelerator = false;
  alone.facts.rank = 0;
  alone.facts.world_size = 1;
  EXPECT_EQ(alone.after().get("ACCELERATE_USE_CPU"), std::nullopt);
}

TEST(ResolveFrameworks, WarnsWhenSrunDropsCpusPerTask) {
  struct Case {
    std::uint32_t cpus;
    const char* asked;
    const char* on_node;
    bool warned;
  };
  for (const Case& c :
       {Case{12, "12", "24", false}, Case{24, "12", "24", false}, Case{1, "12", "24", true}, Case{1, "12", "2", true},
        Case{1, "1", "2", false}, Case{1, "", "2", false}, Case{2, "2", "", false}}) {
    Step step;
    step.cpus = c.cpus;
    step.user.set("SLURM_CPUS_PER_TASK", c.asked);
    step.user.set("SLURM_CPUS_ON_NODE", c.on_node);
    const auto patch = step.run();
    ASSERT_TRUE(patch);
    const auto about_cpus = Contains(HasSubstr("SRUN_CPUS_PER_TASK"));
    EXPECT_EQ(testing::Matches(about_cpus)(patch->warnings), c.warned) << c.cpus << " " << c.asked << " " << c.on_node;
  }
}

TEST(ResolveFrameworks, VariablesSettingRefusesNamesThatRollcallUses) {
  Step step;
  step.set("variables", "MPICH_GPU_SUPPORT_ENABLED=0,FI_PROVIDER=cxi");
  step.user.set("FI_PROVIDER", "tcp");
  EXPECT_EQ(step.after().get("MPICH_GPU_SUPPORT_ENABLED"), "0");
  EXPECT_EQ(step.after().get("FI_PROVIDER"), "tcp");
  for (const char* wrong : {"A", "=1", "1A=2", "RANK=7", "SLURM_JOB_ID=1", "ROLLCALL_DEBUG=on", "A B=1"}) {
    step.set("variables", wrong);
    const auto patch = step.run();
    ASSERT_FALSE(patch) << wrong;
    EXPECT_EQ(patch.error().setting, "variables");
    EXPECT_EQ(patch.error().kind, ErrorKind::Configuration);
  }
}

TEST(ResolveFrameworks, VenvNameIsResolvedBelowVenvRoot) {
  Step step;
  step.set("venv", "torch");
  step.set("venv.root", "${HOME}/venvs");
  step.user.set("HOME", "/home/me");
  EXPECT_EQ(step.after().get("VIRTUAL_ENV"), "/home/me/venvs/torch");
  EXPECT_THAT(*step.after().get("PATH"), HasSubstr("/home/me/venvs/torch/bin:"));
  step.set("venv", "${HOME}/own");
  EXPECT_EQ(step.after().get("VIRTUAL_ENV"), "/home/me/own");
}

}  // namespace
}  // namespace rollcall::resolve
