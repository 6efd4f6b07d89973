// What one task pays for its environment, by the size of its step: from Slurm's variables to the patch, with no I/O.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "runtime/job/node_list.h"
#include "runtime/launchers/slurm.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/launch_settings.h"

namespace {

using namespace rollcall;

/// "jwb[00001-10000]": the list of a machine's partition.
std::string block_of(std::int64_t hosts) { return fmt::format("jwb[00001-{:05}]", hosts); }

/// "jwb[00001,00003,...]": every other node was free, the longest list that Slurm writes.
std::string scattered(std::int64_t hosts) {
  std::string list = "jwb[";
  for (std::int64_t host = 0; host < hosts; ++host) {
    list += fmt::format("{}{:05}", host == 0 ? "" : ",", 2 * host + 1);
  }
  return list + "]";
}

/// The last task of a step.
Environment last_task(std::int64_t hosts, std::int64_t tasks_per_node, std::string node_list) {
  return Environment({{"SLURM_JOB_ID", "4711"},
                      {"SLURM_STEP_ID", "2"},
                      {"SLURM_PROCID", std::to_string(hosts * tasks_per_node - 1)},
                      {"SLURM_LOCALID", std::to_string(tasks_per_node - 1)},
                      {"SLURM_NODEID", std::to_string(hosts - 1)},
                      {"SLURM_STEP_NUM_TASKS", std::to_string(hosts * tasks_per_node)},
                      {"SLURM_STEP_NUM_NODES", std::to_string(hosts)},
                      {"SLURM_STEP_NODELIST", std::move(node_list)},
                      {"SLURM_STEP_TASKS_PER_NODE", fmt::format("{}(x{})", tasks_per_node, hosts)},
                      {"PATH", "/usr/bin:/bin"}});
}

network::NetworkView network_of_a_node() {
  network::NetworkView network;
  network.host_name = "jwb10000";
  network.interfaces = {{"lo", true, true, {}}, {"eth0", true, false, {}}, {"ib0", true, false, {}}};
  network.head_names = {{"jwb00001", {{"10.78.0.1", true, false, false}}, ""}};
  network.route_interface = "ib0";
  network.ephemeral_ports = {.range = {32768, 60999}};
  return network;
}

void resolve_task(benchmark::State& state, const Environment& task) {
  const settings::Settings settings(settings::launch_table());
  const network::NetworkView network = network_of_a_node();
  for (auto _ : state) {
    const Result<job::JobFacts> facts = launchers::facts_from_slurm(task);
    const auto patch = facts ? resolve::resolve(*facts, settings, network, task, 4) : facts.error();
    if (!patch) {
      state.SkipWithError(patch.error().message().c_str());
      return;
    }
    benchmark::DoNotOptimize(patch->changes.data());
  }
  state.SetComplexityN(state.range(0));
}

/// Four tasks a node, a block of nodes: by the number of tasks.
void BM_TasksToEnvironment(benchmark::State& state) {
  const std::int64_t per_node = state.range(0) < 4 ? 1 : 4;
  const std::int64_t hosts = state.range(0) / per_node;
  resolve_task(state, last_task(hosts, per_node, block_of(hosts)));
}
BENCHMARK(BM_TasksToEnvironment)->Arg(1)->Arg(1000)->Arg(10000)->Arg(100000)->Complexity();

/// One task a node: by the number of hosts.
void BM_HostsToEnvironment(benchmark::State& state) {
  resolve_task(state, last_task(state.range(0), 1, block_of(state.range(0))));
}
BENCHMARK(BM_HostsToEnvironment)->Arg(1)->Arg(1000)->Arg(10000)->Arg(50000)->Complexity();

void BM_ScatteredHostsToEnvironment(benchmark::State& state) {
  resolve_task(state, last_task(state.range(0), 1, scattered(state.range(0))));
}
BENCHMARK(BM_ScatteredHostsToEnvironment)->Arg(1)->Arg(1000)->Arg(10000)->Arg(50000)->Complexity();

void expand(benchmark::State& state, const std::string& list) {
  for (auto _ : state) {
    const auto names = job::expand_node_list(list);
    benchmark::DoNotOptimize(names->data());
  }
  state.SetComplexityN(state.range(0));
}

void BM_ExpandBlock(benchmark::State& state) { expand(state, block_of(state.range(0))); }
BENCHMARK(BM_ExpandBlock)->Arg(1000)->Arg(10000)->Arg(50000)->Complexity();

void BM_ExpandScattered(benchmark::State& state) { expand(state, scattered(state.range(0))); }
BENCHMARK(BM_ExpandScattered)->Arg(1000)->Arg(10000)->Arg(50000)->Complexity();

/// "1,2,1,2,...": no two nodes alike.
void BM_ExpandTasksPerNode(benchmark::State& state) {
  std::string text = "1";
  for (std::int64_t host = 1; host < state.range(0); ++host) {
    text += host % 2 == 0 ? ",1" : ",2";
  }
  for (auto _ : state) {
    const auto counts = job::expand_tasks_per_node(text);
    benchmark::DoNotOptimize(counts->data());
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(BM_ExpandTasksPerNode)->Arg(1000)->Arg(10000)->Arg(50000)->Complexity();

}  // namespace

BENCHMARK_MAIN();
