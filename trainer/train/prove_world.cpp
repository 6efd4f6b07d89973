#include "trainer/train/prove_world.h"

#include <fmt/format.h>
#include <torch/torch.h>
#include <cstdio>
#include <ctime>
#include <string>

#include "trainer/distributed/process_group/collectives.h"

namespace rollcall::train {
namespace {

/// The first all-reduce: how many ranks there are.
Result<float> count_ranks(const World& world) {
  at::Tensor ranks = torch::ones({1});
  const Result<void> reduced = process_group::all_reduce_sum(world.process_group, ranks);
  return reduced ? Result<float>(ranks.item<float>()) : reduced.error();
}

/// "DONE <seconds>" on the clock that other programs read as time.monotonic().
void say_done(const World& world, float ranks) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::string line = fmt::format("DONE {}.{:06}\n", now.tv_sec, now.tv_nsec / 1000);
  if (world.rank == 0) {
    line += fmt::format("{:.0f} of {} ranks on {} nodes, rendezvous {}, back end {}\n", ranks, world.world_size,
                        world.num_nodes, world.rendezvous, world.backend);
  }
  std::fputs(line.c_str(), stdout);
}

}  // namespace

Result<void> prove_world(const World& world, const config::Options& options, metrics::StartupTrace& trace) {
  const Result<float> ranks = count_ranks(world);
  if (!ranks) {
    return ranks.error();
  }
  trace.mark("first collective");
  if (options.request == config::Request::DryRun) {
    say_done(world, *ranks);
  }
  if (options.trace_startup && world.rank == 0) {
    std::fputs((options.json ? trace.json() : trace.table()).c_str(), stdout);
    std::fflush(stdout);
  }
  return {};
}

}  // namespace rollcall::train
