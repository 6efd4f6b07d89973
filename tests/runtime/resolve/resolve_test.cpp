#include "runtime/resolve/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/job/marker.h"
#include "tests/support/resolve_step.h"

namespace rollcall::resolve {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Resolve, SetsTheCompleteEnvironmentOfATask) {
  const Environment after = Step().after();
  const std::vector<std::pair<const char*, const char*>> expected{{"RANK", "3"},
                                                                  {"WORLD_SIZE", "4"},
                                                                  {"LOCAL_RANK", "1"},
                                                                  {"LOCAL_WORLD_SIZE", "2"},
                                                                  {"GROUP_RANK", "1"},
                                                                  {"NODE_RANK", "1"},
                                                                  {"MASTER_ADDR", "jwb0001i"},
                                                                  {"GLOO_SOCKET_IFNAME", "ib0"},
                                                                  {"TP_SOCKET_IFNAME", "ib0"},
                                                                  {"NCCL_SOCKET_IFNAME", "ib0"},
                                                                  {"OMP_NUM_THREADS", "12"},
                                                                  {"ROLLCALL_STEP", "4711.2"}};
  for (const auto& [name, value] : expected) {
    EXPECT_EQ(after.get(name), value) << name;
  }
  for (const char* name : {"UCX_NET_DEVICES", "TORCH_HOME", "VIRTUAL_ENV", "NCCL_DEBUG", "CUDA_VISIBLE_DEVICES"}) {
    EXPECT_EQ(after.get(name), std::nullopt) << name;
  }
  const int port = std::stoi(*after.get("MASTER_PORT"));
  EXPECT_GE(port, 20000);
  EXPECT_LE(port, 29999);
  EXPECT_EQ(after.get("PATH"), "/usr/bin:/bin");
}

TEST(Resolve, EveryChangeHasAnOriginAndAReason) {
  Step step;
  step.set("debug", "on");
  step.set("venv", "/venv");
  step.set("cache.local", "/tmp/c");
  const auto patch = step.run();
  ASSERT_TRUE(patch);
  for (const EnvChange& change : patch->changes) {
    EXPECT_FALSE(change.origin.empty()) << change.name;
    EXPECT_FALSE(change.reason.empty()) << change.name;
  }
}

TEST(Resolve, AllTasksOfAStepAgreeOnThePort) {
  Step first;
  first.facts.rank = 0;
  first.facts.node_rank = 0;
  EXPECT_EQ(first.after().get("MASTER_PORT"), Step().after().get("MASTER_PORT"));
  Step reserved;
  reserved.facts.reserved_ports = "17500-17503";
  EXPECT_EQ(reserved.after().get("MASTER_PORT"), "17500");
  reserved.facts.world_index = 1;
  EXPECT_EQ(reserved.after().get("MASTER_PORT"), "17501");
}

TEST(Resolve, UsersValueHasPrecedenceAndADifferenceIsAWarning) {
  for (const char* name :
       {"MASTER_ADDR", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "MASTER_PORT", "OMP_NUM_THREADS"}) {
    Step step;
    step.user.set(name, "7");
    const auto patch = step.run();
    ASSERT_TRUE(patch) << name;
    EXPECT_EQ(patch->find(name)->action, Action::Keep) << name;
    EXPECT_EQ(patch->find(name)->origin, "user") << name;
    EXPECT_EQ(apply(*patch, step.user).get(name), "7");
    EXPECT_THAT(patch->warnings, Contains(AllOf(HasSubstr(name), HasSubstr("7")))) << name;
    EXPECT_THAT(*apply(*patch, step.user).get("ROLLCALL_SET"), testing::Not(HasSubstr(std::string(name) + ":")));
  }
}

TEST(Resolve, UsersValueThatAgreesIsKeptWithoutAWarning) {
  Step step;
  step.user.set("RANK", "3");
  step.user.set("WORLD_SIZE", "4");
  step.user.set("MASTER_ADDR", "10.78.0.1");
  step.network.users_head = step.network.head_names.front();
  step.facts.reserved_ports = "29500";
  step.user.set("MASTER_PORT", "29500");
  step.user.set("GLOO_SOCKET_IFNAME", "ib0");
  const auto patch = step.run();
  EXPECT_THAT(patch->warnings, IsEmpty());
  EXPECT_EQ(apply(*patch, step.user).get("MASTER_PORT"), "29500");
}

/// Whether task `rank` of 2 on each of 2 nodes replaces `value`, and whether it prints the warning.
std::pair<bool, bool> replaces_and_warns(const char* name, const char* value, std::uint32_t rank) {
  Step step;
  step.facts.rank = rank;
  step.facts.local_rank = rank % 2;
  step.facts.node_rank = rank / 2;
  step.facts.first_rank_here = rank - rank % 2;
  step.user.set(name, value);
  const auto patch = step.run();
  return {patch->find(name)->action == Action::Set,
          std::ranges::any_of(patch->task_warnings, [&](const auto& text) { return text.starts_with(name); })};
}

TEST(Resolve, WrongPerTaskVariablesAreReplacedAndOneTaskPerNodeWarns) {
  using Outcomes = std::vector<std::pair<bool, bool>>;
  constexpr std::pair kIsItsOwn{false, false};
  constexpr std::pair kWarns{true, true};
  constexpr std::pair kSilent{true, false};
  const auto tasks = [](const char* name, const char* value) {
    Outcomes outcomes;
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      outcomes.push_back(replaces_and_warns(name, value, rank));
    }
    return outcomes;
  };
  EXPECT_EQ(tasks("LOCAL_RANK", "0"), (Outcomes{kIsItsOwn, kWarns, kIsItsOwn, kWarns}));
  EXPECT_EQ(tasks("LOCAL_RANK", "1"), (Outcomes{kWarns, kIsItsOwn, kWarns, kIsItsOwn}));
  EXPECT_EQ(tasks("JAX_PROCESS_ID", "0"), (Outcomes{kIsItsOwn, kWarns, kWarns, kSilent}));
  EXPECT_EQ(tasks("JAX_PROCESS_ID", "2"), (Outcomes{kWarns, kSilent, kIsItsOwn, kWarns}));
  for (const char* const name : {"NODE_RANK", "GROUP_RANK", "CROSS_RANK"}) {
    EXPECT_EQ(tasks(name, "0"), (Outcomes{kIsItsOwn, kIsItsOwn, kWarns, kSilent})) << name;
  }
}

TEST(Resolve, UsersLocalRankIsKeptWhenTheTaskSeesOneGpu) {
  Step step;
  step.user.set("LOCAL_RANK", "0");
  step.user.set("CUDA_VISIBLE_DEVICES", "1");
  EXPECT_EQ(step.after().get("LOCAL_RANK"), "0");
  step.user.set("CUDA_VISIBLE_DEVICES", "0,1");
  EXPECT_EQ(step.after().get("LOCAL_RANK"), "1");
}

TEST(Resolve, AcceptsAnAliasOfTheHeadNodeInMasterAddr) {
  const auto warns = [](const char* value, const char* address, std::uint32_t rank) {
    Step step;
    step.facts.rank = rank;
    step.facts.this_host = rank == 0 ? "jwb0001" : "jwb0002";
    step.network.interfaces[1].addresses[0].text = "10.77.0.1";
    step.user.set("MASTER_ADDR", value);
    step.network.users_head = {value, {{address, true, std::string_view(address).starts_with("127."), false}}, ""};
    return !step.run()->warnings.empty();
  };
  EXPECT_FALSE(warns("jwb0001i.juwels", "10.78.0.1", 0));
  EXPECT_FALSE(warns("10.77.0.1", "10.77.0.1", 0)) << "of the head's other network, as the head itself knows";
  EXPECT_TRUE(warns("10.77.0.1", "10.77.0.1", 2));
  EXPECT_TRUE(warns("localhost", "127.0.0.1", 0));
  EXPECT_TRUE(warns("jwb0003", "10.78.0.3", 0));
}

TEST(Resolve, UsersRankThatContradictsTheStepIsAMismatch) {
  for (const char* name : {"RANK", "WORLD_SIZE"}) {
    Step step;
    step.user.set(name, "8");
    const auto patch = step.run();
    ASSERT_FALSE(patch);
    EXPECT_EQ(patch.error().setting, name);
    EXPECT_EQ(patch.error().value, "8");
    EXPECT_EQ(patch.error().kind, ErrorKind::Mismatch);
  }
}

/// The environment that the batch step, itself under rollcall, hands to a step of its own.
Environment after_batch_step() {
  Step batch;
  batch.facts = {};
  batch.facts.source = "single";
  batch.facts.job_id = 4711;
  batch.facts.step_id = 4294967291U;
  batch.set("debug", "on");
  return batch.after();
}

TEST(Resolve, ValuesOfAnOuterRollcallAreReplacedOrRemoved) {
  Step step;
  step.user = after_batch_step();
  ASSERT_EQ(step.user.get("WORLD_SIZE"), "1");
  ASSERT_EQ(step.user.get("NCCL_DEBUG"), "INFO");
  const auto patch = step.run();
  ASSERT_TRUE(patch) << patch.error().message();
  const Environment after = apply(*patch, step.user);
  EXPECT_EQ(after.get("WORLD_SIZE"), "4");
  EXPECT_EQ(after.get("RANK"), "3");
  EXPECT_EQ(after.get("NCCL_DEBUG"), std::nullopt);
  EXPECT_EQ(patch->find("NCCL_DEBUG")->action, Action::Unset);
  EXPECT_THAT(patch->warnings, IsEmpty());
}

TEST(Resolve, ValueChangedSinceAnOuterRollcallBelongsToTheUser) {
  Step step;
  step.user = after_batch_step();
  step.user.set("NCCL_DEBUG", "WARN");
  step.user.set("MASTER_PORT", "29400");
  const Environment after = step.after();
  EXPECT_EQ(after.get("NCCL_DEBUG"), "WARN");
  EXPECT_EQ(after.get("MASTER_PORT"), "29400");
}

TEST(Resolve, ValuesOfAnOuterRollcallInTheSameStepAreKept) {
  Step inner;
  inner.user = Step().after();  // srun --ddp knew the site's rule; this one knows nothing
  inner.settings = settings::Settings(settings::launch_table());
  inner.network.head_names = {{"jwb0001", {}, "Name or service not known"}};
  inner.network.route_interface = "eth0";
  const Environment after = inner.after();
  EXPECT_EQ(after.get("MASTER_ADDR"), "jwb0001i");
  EXPECT_EQ(after.get("GLOO_SOCKET_IFNAME"), "ib0");
  EXPECT_EQ(after.get("ROLLCALL_SET"), inner.user.get("ROLLCALL_SET"));
  inner.set("interface.gloo", "eth0");
  EXPECT_EQ(inner.after().get("GLOO_SOCKET_IFNAME"), "eth0");
  inner.facts.reserved_ports.clear();
  inner.set("port.range", "21000-21000");
  EXPECT_EQ(inner.after().get("MASTER_PORT"), "21000");
}

TEST(Resolve, SmallerWorldInTheSameStepUsesItsOwnEndpoint) {
  Step inner;
  inner.user = Step().after();
  inner.facts.rank = 1;
  inner.facts.world_size = 2;
  inner.facts.world_index = 1;
  inner.facts.first_rank = 2;
  inner.facts.head_host = "jwb0002";
  inner.network.head_names = {{"jwb0002i", {{"10.78.0.2", true, false, false}}, ""}};
  EXPECT_EQ(inner.after().get("MASTER_ADDR"), "jwb0002i");
  EXPECT_NE(inner.after().get("MASTER_PORT"), inner.user.get("MASTER_PORT"));
}

TEST(Resolve, ResolvingTwiceInOneStepChangesNothing) {
  Step step;
  step.set("debug", "on");
  step.set("venv", "/venv");
  const Environment once = step.after();
  step.user = once;
  EXPECT_EQ(step.after().variables(), once.variables());
}

TEST(Resolve, MissingTemplatedNameFallsBackWithAWarning) {
  Step step;
  step.network.head_names = {{"jwb0001i", {}, "Name or service not known"},
                             {"jwb0001", {{"10.77.0.1", true, false, false}}, ""}};
  const auto patch = step.run();
  EXPECT_EQ(patch->find("MASTER_ADDR")->value, "jwb0001");
  EXPECT_THAT(patch->warnings, Contains(HasSubstr("jwb0001i: does not resolve on jwb0002")));
}

TEST(Resolve, LoopbackAcrossNodesIsRefusedUnlessAllowed) {
  Step step;
  step.network.head_names = {{"jwb0001i", {{"127.0.0.1", true, true, false}}, ""}};
  const auto refused = step.run();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Unavailable);
  step.set("host.loopback", "allow");
  EXPECT_EQ(step.after().get("MASTER_ADDR"), "jwb0001i");
}

TEST(Resolve, UnknownHeadLeavesMasterAddrUnsetWithAWarning) {
  Step step;
  step.facts.head_host.clear();
  step.network.head_names.clear();
  const auto patch = step.run();
  EXPECT_EQ(patch->find("MASTER_ADDR"), nullptr);
  EXPECT_THAT(patch->warnings, Contains(HasSubstr("MASTER_ADDR")));
}

TEST(Resolve, MissingConfiguredInterfaceIsAnError) {
  Step step;
  step.set("interface.gloo", "hsn0");
  ASSERT_FALSE(step.run());
  EXPECT_EQ(step.run().error().setting, "interface.gloo");
}

TEST(Resolve, UsersMasterPortMayBeAnyValidPort) {
  Step step;
  step.facts.rank = 0;
  step.user.set("MASTER_PORT", "40001");
  ASSERT_TRUE(step.run());
  for (const char* no_port : {"http", "0", "-1", "65536"}) {
    step.user.set("MASTER_PORT", no_port);
    EXPECT_FALSE(step.run()) << no_port;
  }
}

TEST(Resolve, ThreadsFollowTheCpusOfTheTask) {
  struct Case {
    const char* setting;
    std::uint32_t cpus;
    const char* per_task;
    const char* on_node;
    std::optional<std::string> threads;
  };
  for (const Case& c :
       {Case{"auto", 12, "12", "24", "12"}, Case{"auto", 24, "12", "24", "12"}, Case{"auto", 24, "", "24", "12"},
        Case{"auto", 12, "", "24", "12"}, Case{"auto", 0, "", "", "1"}, Case{"5", 12, "12", "24", "5"},
        Case{"keep", 12, "12", "24", std::nullopt}}) {
    Step step;
    step.set("threads", c.setting);
    step.cpus = c.cpus;
    step.user.set("SLURM_CPUS_PER_TASK", c.per_task);
    step.user.set("SLURM_CPUS_ON_NODE", c.on_node);
    EXPECT_EQ(step.after().get("OMP_NUM_THREADS"), c.threads) << c.setting << " " << c.cpus << " " << c.per_task;
  }
}

TEST(Resolve, CacheVariablesFollowTheCacheSettings) {
  Step step;
  step.set("cache.shared", "${SCRATCH}/cache");
  step.set("cache.local", "/tmp/jit");
  step.user.set("SCRATCH", "/p/scratch/me");
  step.user.set("HF_HOME", "/mine");
  const Environment after = step.after();
  EXPECT_EQ(after.get("TORCH_HOME"), "/p/scratch/me/cache/torch");
  EXPECT_EQ(after.get("HF_HOME"), "/mine");
  EXPECT_EQ(after.get("TRITON_CACHE_DIR"), "/tmp/jit/triton");
  EXPECT_EQ(after.get("JAX_COMPILATION_CACHE_DIR"), std::nullopt);
  step.user.unset("SCRATCH");  // a cache is no reason to end a step
  const auto patch = step.run();
  ASSERT_TRUE(patch);
  EXPECT_EQ(patch->find("TORCH_HOME"), nullptr);
  EXPECT_NE(patch->find("TRITON_CACHE_DIR"), nullptr);
  EXPECT_THAT(patch->warnings, Contains(AllOf(HasSubstr("cache.shared"), HasSubstr("SCRATCH is not set"))));
}

TEST(Resolve, EachCacheHasAPolicyOfItsOwn) {
  Step step;
  step.set("cache.shared", "/shared");
  step.set("cache.local", "/local");
  step.set("cache.triton", "shared");
  step.set("cache.torch", "off");
  step.set("cache.inductor", "job");
  step.set("cache.jax", "local");
  const Environment after = step.after();
  EXPECT_EQ(after.get("TRITON_CACHE_DIR"), "/shared/triton");
  EXPECT_EQ(after.get("TORCH_HOME"), std::nullopt);
  EXPECT_EQ(after.get("TORCHINDUCTOR_CACHE_DIR"), "/local/job-4711/inductor");
  EXPECT_EQ(after.get("JAX_COMPILATION_CACHE_DIR"), "/local/jax");
  EXPECT_EQ(after.get("HF_HOME"), "/shared/huggingface");
}

TEST(Resolve, VenvIsActivatedOnceAndReplacesAnOuterOne) {
  Step outer;
  outer.set("venv", "/old");
  Step step;
  step.user = outer.after();
  EXPECT_EQ(step.user.get("PATH"), "/old/bin:/usr/bin:/bin");
  step.set("venv", "/new");
  const Environment after = step.after();
  EXPECT_EQ(after.get("VIRTUAL_ENV"), "/new");
  EXPECT_EQ(after.get("PATH"), "/new/bin:/usr/bin:/bin");
  step.user.set("PATH", "/usr/bin:/new/bin:/bin");
  EXPECT_EQ(step.after().get("PATH"), "/new/bin:/usr/bin:/bin");
}

TEST(Resolve, UsersOwnVenvStaysActive) {
  Step step;
  step.set("venv", "/site");
  step.user.set("VIRTUAL_ENV", "/mine");
  step.user.set("PATH", "/mine/bin:/bin");
  const auto patch = step.run();
  EXPECT_EQ(apply(*patch, step.user).get("PATH"), "/mine/bin:/bin");
  EXPECT_THAT(patch->warnings, Contains(HasSubstr("VIRTUAL_ENV")));
}

TEST(Resolve, GpusVisibleNodeExposesAllGpusOfTheNode) {
  Step step;
  step.user.set("CUDA_VISIBLE_DEVICES", "1");
  step.user.set("SLURM_STEP_GPUS", "1");
  step.user.set("SLURM_JOB_GPUS", "0,1");
  step.user.set("SLURM_GPUS_ON_NODE", "2");
  EXPECT_EQ(step.after().get("CUDA_VISIBLE_DEVICES"), "1");
  step.set("gpus.visible", "node");
  EXPECT_EQ(step.after().get("CUDA_VISIBLE_DEVICES"), "0,1");
  step.user.set("SLURM_STEP_GPUS", "1,2");
  EXPECT_EQ(step.after().get("CUDA_VISIBLE_DEVICES"), "1,2");
  for (const char* users : {"7", "1,7"}) {
    step.user.set("CUDA_VISIBLE_DEVICES", users);
    EXPECT_EQ(step.after().get("CUDA_VISIBLE_DEVICES"), users);
  }
}

TEST(Resolve, GpuListOfOneTaskIsNotUsedAsTheNodesList) {
  Step step;
  step.set("gpus.visible", "node");
  step.user.set("CUDA_VISIBLE_DEVICES", "1");
  step.user.set("SLURM_STEP_GPUS", "1");
  step.user.set("SLURM_GPUS_ON_NODE", "2");
  EXPECT_EQ(step.after().get("CUDA_VISIBLE_DEVICES"), "1");
  EXPECT_THAT(step.run()->warnings, Contains(HasSubstr("gpus.visible")));
  step.facts.step_gpus = "0,1";
  EXPECT_EQ(step.after().get("CUDA_VISIBLE_DEVICES"), "0,1");
}

TEST(Resolve, DebugTurnsTheFrameworksDiagnosticsOn) {
  Step step;
  step.set("debug", "on");
  step.user.set("NCCL_DEBUG", "TRACE");
  const Environment after = step.after();
  EXPECT_EQ(after.get("TORCH_DISTRIBUTED_DEBUG"), "DETAIL");
  EXPECT_EQ(after.get("TORCH_CPP_LOG_LEVEL"), "INFO");
  EXPECT_EQ(after.get("TORCH_SHOW_CPP_STACKTRACES"), "1");
  EXPECT_EQ(after.get("NCCL_DEBUG"), "TRACE");
}

}  // namespace
}  // namespace rollcall::resolve
