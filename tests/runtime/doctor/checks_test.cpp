#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "runtime/doctor/checks/check.h"
#include "tests/support/doctor_world.h"

namespace rollcall::doctor {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// A change that breaks a healthy job, and the finding that is expected.
struct CheckCase {
  const char* name;
  const char* check;
  std::function<void(JobContext&)> breakage;
  Status status;
  std::vector<std::string> hosts;
  const char* reason;
};

NodeFacts& second_node(JobContext& context) { return context.tasks[2].node; }

const std::vector<CheckCase>& cases() {
  static const std::vector<CheckCase> kCases{
      {"SilentNode",
       "answer",
       [](JobContext& w) {
         w.missing = {{"jwb0002", "2 of 2 ranks did not answer within 60 s"}};
       },
       Status::Bad,
       {"jwb0002"},
       "did not answer within 60 s"},
      {"NoPlugin",
       "way",
       [](JobContext& w) { w.launch_method.srun_has_option = false; },
       Status::Notice,
       {},
       "srun has no --ddp"},
      {"NoSlurm", "way", [](JobContext& w) { w.launch_method = {}; }, Status::Absent, {}, "srun does not work here"},
      {"StepIsSet",
       "way",
       [](JobContext& w) {
         w.launch_method.srun_has_option = false;
         w.tasks[0].environment_set = true;
       },
       Status::Good,
       {},
       "set the environment of this step"},
      {"NodeLossNotReported",
       "node-loss",
       [](JobContext& w) { w.node_loss = {}; },
       Status::Absent,
       {},
       "does not report"},
      {"NodeLossNeverDetected",
       "node-loss",
       [](JobContext& w) { w.node_loss.noticed_seconds = 0; },
       Status::Notice,
       {},
       "SlurmdTimeout=0"},
      {"NotRequeued",
       "node-loss",
       [](JobContext& w) { w.node_loss.requeues = false; },
       Status::Notice,
       {},
       "instead of being requeued"},
      {"NoBatchJob",
       "node-loss",
       [](JobContext& w) { w.node_loss.requeues = std::nullopt; },
       Status::Good,
       {},
       "and this is not one"},
      {"ResolveFails",
       "environment",
       [](JobContext& w) { w.tasks[3].resolve_error = "port.range: overlaps"; },
       Status::Bad,
       {"jwb0002"},
       "port.range: overlaps"},
      {"ResolveWarns",
       "environment",
       [](JobContext& w) { w.tasks[1].warnings = {"plain name is used"}; },
       Status::Notice,
       {"jwb0001"},
       "plain name is used"},
      {"OwnNameUnknown",
       "own-name",
       [](JobContext& w) {
         second_node(w).names.own = {"jwb0002", {}, "Name or service not known"};
       },
       Status::Notice,
       {"jwb0002"},
       "jwb0002, does not resolve there"},
      {"OwnNameIsLoopback",
       "own-name",
       [](JobContext& w) {
         second_node(w).names.own = {"jwb0002", {{"127.0.1.1", true, true, false}}, ""};
       },
       Status::Notice,
       {"jwb0002"},
       "jwb0002, is 127.0.1.1 there"},
      {"HeadUnknown",
       "head-name",
       [](JobContext& w) {
         second_node(w).names.head = {{"jwb0001x", {}, "Name or service not known"}};
       },
       Status::Bad,
       {"jwb0002"},
       "jwb0001x does not resolve"},
      {"HeadIsLoopback",
       "head-name",
       [](JobContext& w) {
         second_node(w).names.head[0].addresses = {{"127.0.1.1", true, true, false}};
       },
       Status::Bad,
       {"jwb0002"},
       "loopback address 127.0.1.1"},
      {"NoReverse",
       "reverse-name",
       [](JobContext& w) { second_node(w).names.reverse_name = ""; },
       Status::Notice,
       {"jwb0002"},
       "10.78.0.1 has no name"},
      {"ReverseOfAnother",
       "reverse-name",
       [](JobContext& w) { second_node(w).names.reverse_name_leads_back = false; },
       Status::Notice,
       {"jwb0002"},
       "does not resolve to it"},
      {"InterfaceMissing",
       "interface",
       [](JobContext& w) {
         second_node(w).interface_uses = {{"interface.gloo", "", "ib7 is not an interface that is up"}};
       },
       Status::Bad,
       {"jwb0002"},
       "interface.gloo: ib7 is not an interface"},
      {"PortBlocked",
       "head-port",
       [](JobContext& w) { w.tasks[2].head.error = "Connection timed out"; },
       Status::Bad,
       {"jwb0002"},
       "jwb0001i:29500: Connection timed out"},
      {"HeadAddressDoesNotAnswer",
       "head-port",
       [](JobContext& w) { w.tasks[2].head.silent_addresses = {"fd00::99"}; },
       Status::Notice,
       {"jwb0002"},
       "jwb0001i:29500: fd00::99 does not answer, another of its addresses does"},
      {"LinkBlocked",
       "ring",
       [](JobContext& w) { w.ring[0].error = "No route to host"; },
       Status::Bad,
       {"jwb0001"},
       "does not reach jwb0002"},
      {"NoRing", "ring", [](JobContext& w) { w.ring.clear(); }, Status::Absent, {}, "fewer than two nodes"},
      {"ClockAhead",
       "clock",
       [](JobContext& w) { w.clocks[0].ahead_seconds = 3; },
       Status::Bad,
       {"jwb0002"},
       "3 s ahead of rank 0's node"},
      {"ClockBehind",
       "clock",
       [](JobContext& w) { w.clocks[0].ahead_seconds = -3; },
       Status::Bad,
       {"jwb0002"},
       "3 s behind rank 0's node"},
      {"ClockInDoubt",
       "clock",
       [](JobContext& w) {
         w.clocks[0] = {"jwb0002", 0.6, 0.2};
       },
       Status::Good,
       {},
       "600 ms"},
      {"ScratchReadOnly",
       "scratch",
       [](JobContext& w) { second_node(w).scratch.error = "Read-only file system"; },
       Status::Bad,
       {"jwb0002"},
       "/scratch cannot be written: Read-only"},
      {"ScratchFull",
       "scratch",
       [](JobContext& w) { second_node(w).scratch.free_bytes = 5'000'000'000; },
       Status::Notice,
       {"jwb0002"},
       "has only 5 GB left"},
      {"ScratchInodes",
       "scratch",
       [](JobContext& w) { second_node(w).scratch.free_inodes = 3; },
       Status::Notice,
       {"jwb0002"},
       "only 3 of 1000 inodes left"},
      {"ScratchPurge",
       "scratch",
       [](JobContext& w) { w.tasks[0].node.scratch.purge_warning = "old.pt in 3 days"; },
       Status::Notice,
       {"jwb0001"},
       "old.pt in 3 days"},
      {"NoScratch",
       "scratch",
       [](JobContext& w) {
         for (TaskFacts& task : w.tasks) {
           task.node.scratch = {};
         }
       },
       Status::Absent,
       {},
       "neither SCRATCH nor setting scratch.folder"},
      {"VenvBroken",
       "venv",
       [](JobContext& w) { second_node(w).venv.error = "bin/python: No such file or directory"; },
       Status::Bad,
       {"jwb0002"},
       "/venv: bin/python: No such file"},
      {"OtherGlibc",
       "versions",
       [](JobContext& w) { second_node(w).versions.glibc = "2.28"; },
       Status::Bad,
       {"jwb0002"},
       "glibc 2.28, elsewhere 2.36"},
      {"OtherKernel",
       "versions",
       [](JobContext& w) { second_node(w).versions.kernel = "6.9.0"; },
       Status::Notice,
       {"jwb0002"},
       "kernel 6.9.0, elsewhere 6.1.0"},
      {"OtherPlugin",
       "versions",
       [](JobContext& w) { second_node(w).versions.plugin = "24.11.5 (ffffffff)"; },
       Status::Notice,
       {"jwb0002"},
       "plugin 24.11.5 (ffffffff), elsewhere 24.11.5 (1c291ca3)"},
      {"NoPluginOnANode",
       "versions",
       [](JobContext& w) { second_node(w).versions.plugin = ""; },
       Status::Notice,
       {"jwb0002"},
       "plugin none, elsewhere 24.11.5 (1c291ca3)"},
      {"OtherProfile",
       "versions",
       [](JobContext& w) { second_node(w).versions.profile = "x (00000001)"; },
       Status::Notice,
       {"jwb0002"},
       "profile x (00000001), elsewhere x (0a0b0c0d)"},
      {"OtherProgram",
       "versions",
       [](JobContext& w) { second_node(w).versions.program = "00000001"; },
       Status::Notice,
       {"jwb0002"},
       "program 00000001, elsewhere 11223344"},
      {"GpuFar",
       "devices",
       [](JobContext& w) {
         for (TaskFacts& task : w.tasks) {
           task.node.adapters[0].numa = 1;
         }
       },
       Status::Notice,
       {"jwb0001", "jwb0002"},
       "no adapter on its NUMA node"},
      {"GpuLost", "devices", [](JobContext& w) { second_node(w).gpus.clear(); }, Status::Notice, {"jwb0002"}, "no GPU"},
      {"GpuOfSlurmNotVisible",
       "devices",
       [](JobContext& w) {
         for (TaskFacts& task : w.tasks) {
           task.node.gpus.clear();
           task.node.slurm_gpus = 4;
         }
       },
       Status::Notice,
       {"jwb0001", "jwb0002"},
       "Slurm allocated 4 GPUs"},
      {"AdapterDown",
       "devices",
       [](JobContext& w) {
         for (TaskFacts& task : w.tasks) {
           task.node.adapters.push_back({"mlx5_1", 1, false, 200});
         }
       },
       Status::Notice,
       {"jwb0001", "jwb0002"},
       "mlx5_1 has no active port"},
      {"NoDevices",
       "devices",
       [](JobContext& w) {
         for (TaskFacts& task : w.tasks) {
           task.node.gpus.clear();
           task.node.adapters.clear();
         }
       },
       Status::Absent,
       {},
       "no GPU, no network adapter"},
      {"GpusOfOthersForbidden",  // --gpus-per-task=1 under a cgroup
       "gpus",
       [](JobContext& w) {
         for (TaskFacts& task : w.tasks) {
           task.node.slurm_gpus = 2;
           task.gpus = {{task.gpus.visible[task.local_rank]}, 1};
         }
       },
       Status::Notice,
       {"jwb0001", "jwb0002"},
       "can open 1 of its node's 2 GPUs"},
      {"GpusOfOthersForbiddenOutsideSlurm",
       "gpus",
       [](JobContext& w) {
         for (TaskFacts& task : w.tasks) {
           task.gpus = {{task.gpus.visible[task.local_rank]}, 1};
         }
       },
       Status::Notice,
       {"jwb0001", "jwb0002"},
       "can open 1 of its node's 2 GPUs"},
      {"GpusOfOthersHiddenByTheVariable",  // CUDA_VISIBLE_DEVICES without a cgroup, which NCCL looks through
       "gpus",
       [](JobContext& w) {
         for (TaskFacts& task : w.tasks) {
           task.gpus = {{task.gpus.visible[task.local_rank]}, 2};
         }
       },
       Status::Good,
       {},
       "2 ranks, 2 GPUs on each node"},
      {"GpusIdle",
       "gpus",
       [](JobContext& w) {
         w.tasks.erase(w.tasks.begin() + 3);
         w.tasks.erase(w.tasks.begin() + 1);
       },
       Status::Notice,
       {"jwb0001", "jwb0002"},
       "1 rank on a node with 2 GPUs: a program with one GPU per rank leaves 1 idle"},
      {"GpusOfOtherJobsSeen",
       "gpus",
       [](JobContext& w) {
         for (TaskFacts& task : w.tasks) {
           task.node.slurm_gpus = 2;
           task.gpus.visible.push_back({"0000:c4:00.0", 0, true, -1});
           task.gpus.openable = 3;
         }
       },
       Status::Good,
       {},
       "2 ranks, 2 GPUs on each node"},
      {"MoreRanksThanGpus",
       "gpus",
       [](JobContext& w) {
         for (TaskFacts& task : w.tasks) {
           task.gpus = {{task.gpus.visible[0]}, 1};
           task.node.slurm_gpus = 1;
         }
       },
       Status::Notice,
       {"jwb0001", "jwb0002"},
       "2 ranks share 1 GPU"},
      {"OneGpuForAll",
       "gpus",
       [](JobContext& w) {
         w.tasks[2].gpus.visible.resize(1);
         w.tasks[3].gpus.visible.resize(1);
       },
       Status::Notice,
       {"jwb0002"},
       "2 ranks share 1 GPU"},
      {"GpuMissing",
       "gpus",
       [](JobContext& w) { w.tasks[3].gpus = {}; },
       Status::Notice,
       {"jwb0002"},
       "1 of 2 ranks sees no GPU"},
      {"GpuOfSlurmMissingOnTheNode",
       "gpus",
       [](JobContext& w) {
         w.tasks[2].node.slurm_gpus = 2;
         w.tasks[2].gpus = {{w.tasks[2].gpus.visible[0]}, 1};
         w.tasks[3].gpus = w.tasks[2].gpus;
       },
       Status::Notice,
       {"jwb0002"},
       "can open 1 of its node's 2 GPUs"},
      {"GpuOfTheOtherSocket",
       "gpus",
       [](JobContext& w) { w.tasks[3].gpus.visible[1].numa = 1; },
       Status::Notice,
       {"jwb0002"},
       "local rank 1's CPUs are on NUMA node 0, its GPU is on 1"},
      {"GpuOfOneOfTheRanksSockets",
       "gpus",
       [](JobContext& w) {
         w.tasks[3].gpus.visible[1].numa = 1;
         w.tasks[3].numa_nodes = {0, 1};
       },
       Status::Good,
       {},
       "2 ranks, 2 GPUs"},
      {"PartsOfGpus",
       "gpus",
       [](JobContext& w) {
         for (const std::size_t i : {2U, 3U}) {
           w.tasks[i].gpus = {{{"MIG-" + std::to_string(i), -1, false, -1}}, 1};
           w.tasks[i].node.slurm_gpus = 2;
         }
       },
       Status::Notice,
       {"jwb0002"},
       "parts of GPUs (MIG)"},
      {"NodeWithoutGpus",  // of a component for CPUs
       "gpus",
       [](JobContext& w) {
         for (const std::size_t i : {0U, 1U}) {
           w.tasks[i].gpus = {};
           w.tasks[i].node.slurm_gpus = -1;
         }
       },
       Status::Good,
       {},
       "2 ranks, 2 GPUs"},
      {"GpuOfTheOtherSocketBesideAnUnknownOne",
       "gpus",
       [](JobContext& w) {
         w.tasks[2].gpus.visible[0].numa = 1;
         w.tasks[3].gpus.visible[1].numa = -1;
       },
       Status::Notice,
       {"jwb0002"},
       "local rank 0's CPUs are on NUMA node 0, its GPU is on 1"},
      {"NoGpuForAnyRank",
       "gpus",
       [](JobContext& w) {
         for (TaskFacts& task : w.tasks) {
           task.gpus = {};
         }
       },
       Status::Absent,
       {},
       "no rank sees a GPU"},
      {"AllOnOneCore",
       "cpus",
       [](JobContext& w) {
         w.tasks[2].cores = {5};
         w.tasks[3].cores = {5};
       },
       Status::Bad,
       {"jwb0002"},
       "all 2 ranks are on core 5"},
      {"MasksOverlap",
       "cpus",
       [](JobContext& w) {
         w.tasks[2].cores = {0, 1};
         w.tasks[3].cores = {1, 2};
       },
       Status::Notice,
       {"jwb0002"},
       "share cores"},
      {"NoBindingIsFine",
       "cpus",
       [](JobContext& w) {
         for (TaskFacts& task : w.tasks) {
           task.cores = {0, 1, 2, 3};
         }
       },
       Status::Good,
       {},
       "every rank has 4 cores"},
      {"OneCoreMachine",
       "cpus",
       [](JobContext& w) {
         for (TaskFacts& task : w.tasks) {
           task.cores = {0};
           task.node.cores = 1;
         }
       },
       Status::Notice,
       {"jwb0001", "jwb0002"},
       "2 ranks share 1 core"},
      {"ShmSmall",
       "shm",
       [](JobContext& w) { second_node(w).shm_bytes = 67'108'864; },
       Status::Notice,
       {"jwb0002"},
       "/dev/shm has only 67.1 MB"},
      {"MemlockSmall",
       "memlock",
       [](JobContext& w) { w.tasks[2].locked_memory = 65536; },
       Status::Bad,
       {"jwb0002"},
       "only 65.5 kB may be locked"},
      {"MemlockUnneeded",
       "memlock",
       [](JobContext& w) {
         for (TaskFacts& task : w.tasks) {
           task.node.adapters.clear();
         }
       },
       Status::Absent,
       {},
       "no network adapter here needs"},
      {"Slow",
       "speed",
       [](JobContext& w) { w.benchmark.rows[1].gigabytes = 0.1; },
       Status::Notice,
       {},
       "at least 1.88 GB/s is expected: half of 100000 Mbit/s"},
      {"OneSlowAdapter",
       "speed",
       [](JobContext& w) {
         second_node(w).interfaces[1].megabits = 10'000;
         w.benchmark.rows[1].gigabytes = 0.6;
       },
       Status::Notice,
       {},
       "at least 0.625 GB/s is expected: half of 10000 Mbit/s"},
      {"OneSlowAdapterAsFastAsItCan",
       "speed",
       [](JobContext& w) {
         second_node(w).interfaces[1].megabits = 10'000;
         w.benchmark.rows[1].gigabytes = 1;
       },
       Status::Good,
       {},
       "at least 0.625 GB/s"},
      {"SlowerThanTheSiteExpects",
       "speed",
       [](JobContext& w) { w.limits.gigabytes = 5; },
       Status::Bad,
       {},
       "at least 5 GB/s is expected: doctor.bandwidth"},
      {"Latency", "speed", [](JobContext& w) { w.limits.microseconds = 5; }, Status::Bad, {}, "at most 5 us per hop"},
      {"WrongData",
       "speed",
       [](JobContext& w) { w.benchmark.error = "all-reduce gave wrong data"; },
       Status::Bad,
       {},
       "wrong data"},
      {"CollectivesFail",
       "collectives",
       [](JobContext& w) {
         w.collectives = {"", "--backend: mpi: no MPI launcher; try srun --mpi=pmix", {}};
       },
       Status::Bad,
       {},
       "no MPI launcher"},
      {"CollectivesWrong",
       "collectives",
       [](JobContext& w) { w.collectives.rows[1].correct = false; },
       Status::Bad,
       {},
       "gave a wrong result"},
      {"NotMeasured", "speed", [](JobContext& w) { w.benchmark = {}; }, Status::Absent, {}, "not measured"},
      {"RingIsBroken",
       "speed",
       [](JobContext& w) { w.benchmark = {.absent = "not measured: node1 does not reach node2"}; },
       Status::Absent,
       {},
       "node1 does not reach node2"},
      {"Loopback",
       "speed",
       [](JobContext& w) {
         for (TaskFacts& task : w.tasks) {
           task.node.route_interface = "lo";
         }
         w.benchmark.rows[1].gigabytes = 0.001;
       },
       Status::Good,
       {},
       "no expectation: the connections stay on one machine"},
  };
  return kCases;
}

class DoctorCheck : public testing::TestWithParam<CheckCase> {};

TEST_P(DoctorCheck, ReportsTheExpectedFinding) {
  const CheckCase& test = GetParam();
  JobContext context = healthy_world();
  test.breakage(context);
  const std::vector<Checked> findings = run_checks(context, {test.check});
  ASSERT_EQ(findings.size(), 1U) << testing::PrintToString(findings.size());
  const Finding& finding = findings.front().finding;
  EXPECT_EQ(finding.status, test.status) << finding.reason;
  EXPECT_EQ(finding.hosts, test.hosts);
  EXPECT_THAT(finding.reason, HasSubstr(test.reason));
  const bool needs_action = test.status == Status::Bad || test.status == Status::Notice;
  EXPECT_EQ(needs_action, !finding.action.empty()) << finding.action;
}

INSTANTIATE_TEST_SUITE_P(Cases, DoctorCheck, testing::ValuesIn(cases()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(DoctorChecks, EveryCheckIsGoodForAHealthyJob) {
  for (const Check& check : kChecks) {
    const std::vector<Checked> findings = run_checks(healthy_world(), {check.name});
    ASSERT_EQ(findings.size(), 1U) << check.name;
    EXPECT_EQ(findings.front().finding.status, Status::Good) << check.name << ": " << findings.front().finding.reason;
    EXPECT_THAT(findings.front().finding.action, IsEmpty());
  }
}

TEST(DoctorChecks, EveryCheckHasACaseThatBreaksIt) {
  for (const Check& check : kChecks) {
    const auto breaks = [&](const CheckCase& test) { return test.check == check.name && test.status != Status::Good; };
    EXPECT_TRUE(std::any_of(cases().begin(), cases().end(), breaks)) << check.name;
  }
}

TEST(DoctorChecks, GpuAdviceNamesTheExactOptions) {
  const auto action = [](JobContext context) { return run_checks(context, {"gpus"}).front().finding.action; };
  JobContext context = healthy_world();
  context.tasks[0].gpus.visible[0].numa = 3;
  EXPECT_THAT(action(context), HasSubstr("--cpu-bind=map_ldom:3,0"));
  for (TaskFacts& task : context.tasks) {
    task.gpus.openable = 1;
  }
  EXPECT_THAT(action(context), HasSubstr("--gpus-per-node=2 without --gpus-per-task and --gpu-bind"));
  context.tasks.resize(1);
  EXPECT_THAT(action(context), HasSubstr("--ntasks-per-node=2"));
}

TEST(DoctorChecks, EveryCheckHandlesASingleTaskAndAnEmptyContext) {
  JobContext alone = healthy_world();
  alone.tasks.resize(1);
  alone.step.world_size = 1;
  alone.step.num_nodes = 1;
  for (const JobContext& context : {alone, JobContext()}) {
    for (const Check& check : kChecks) {
      EXPECT_FALSE(run_checks(context, {check.name}).empty()) << check.name;
    }
  }
}

}  // namespace
}  // namespace rollcall::doctor
