#include "trainer/train/world.h"

#include <fmt/format.h>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "runtime/base/this_process.h"
#include "runtime/rendezvous/meet.h"
#include "trainer/distributed/process_group/factory.h"
#include "trainer/distributed/process_group/store.h"

namespace rollcall::train {
namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// Gloo, NCCL and UCX read their interface variables from the process's own environment.
void put_into_process(const resolve::EnvPatch& patch) {
  for (const resolve::EnvChange& change : patch.changes) {
    if (change.action == resolve::Action::Set) {
      setenv(change.name.c_str(), change.value.c_str(), 1);
    } else if (change.action == resolve::Action::Unset) {
      unsetenv(change.name.c_str());
    }
  }
}

World world_of(const job::JobFacts& facts) {
  World world;
  world.rank = facts.rank;
  world.world_size = facts.world_size;
  world.num_nodes = facts.num_nodes;
  world.host = facts.this_host.empty() ? this_host_name() : facts.this_host;
  world.rendezvous = "none";
  world.backend = "none";
  return world;
}

}  // namespace

Result<World> join_world(const step::ResolvedStep& step, const Environment& patched, const settings::Settings& launch,
                         const settings::Settings& trainer, std::unique_ptr<launchers::PmixClient> pmix,
                         FailureReport& report, metrics::StartupTrace& trace) {
  World world = world_of(step.facts);
  put_into_process(step.patch);
  if (world.world_size == 1) {
    return world;
  }
  if (trainer.text("parallel") == "none") {
    return fail("--parallel", "none",
                fmt::format("{} ranks would each train alone and overwrite each other", world.world_size),
                "--parallel=ddp, or one task", ExitCode::Mismatch);
  }
  Result<rendezvous::Meeting> meeting = rendezvous::meet(step.facts, patched, launch, pmix.get());
  if (!meeting) {
    return meeting.error();
  }
  trace.mark("rendezvous");
  Result<c10::intrusive_ptr<c10d::Store>> store = process_group::connect_store(
      *meeting, world.rank, world.world_size, milliseconds(launch.number("rendezvous.timeout")));
  if (!store) {
    return store.error();
  }
  trace.mark("store");
  world.store = *store;
  report.attach(world.store);
  // A rank that dies as a PMIx client takes the whole step down before anybody can say why.
  pmix.reset();
  world.rendezvous = meeting->method + " " + rendezvous::to_text(meeting->endpoint);
  world.group_options = {.backend = trainer.text("backend"),
                         .timeout = milliseconds(trainer.number("collective-timeout")),
                         .compare_calls = launch.text("debug") == "collectives"};
  Result<process_group::NamedProcessGroup> group =
      process_group::make_process_group(world.store, world.rank, world.world_size, world.group_options);
  if (!group) {
    return group.error();
  }
  trace.mark("process group");
  world.process_group = group->process_group;
  world.backend = group->backend;
  return world;
}

}  // namespace rollcall::train
