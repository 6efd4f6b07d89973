#include "trainer/train/dry_run.h"

#include <fmt/format.h>
#include <cstdio>
#include <ctime>

#include "trainer/distributed/process_group/collectives.h"
#include "trainer/torch.h"

namespace rollcall::train {
namespace {

/// "DONE <seconds>" on the clock that other programs read as time.monotonic().
void say_done(const World& world, float ranks) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::string line = fmt::format("DONE {}.{:06}\n", now.tv_sec, now.tv_nsec / 1000);
  if (world.rank == 0) {
    line += fmt::format("{:.0f} of {} ranks on {} nodes, rendezvous {}, backend {}\n", ranks, world.world_size,
                        world.num_nodes, world.rendezvous, world.backend);
  }
  std::fputs(line.c_str(), stdout);
}

}  // namespace

Result<void> dry_run(const World& world, const config::Options& options, metrics::StartupTrace& trace) {
  at::Tensor ranks = torch::ones({1}, world.device.options());
  if (Result<void> reduced = process_group::all_reduce_sum(world.process_group, ranks); !reduced) {
    return reduced;
  }
  trace.mark("first collective");
  if (options.request == config::Request::DryRun) {
    say_done(world, ranks.item<float>());
  }
  if (options.trace_startup && world.rank == 0) {
    std::fputs((options.json ? trace.json() : trace.table()).c_str(), stdout);
    std::fflush(stdout);
  }
  return {};
}

}  // namespace rollcall::train
