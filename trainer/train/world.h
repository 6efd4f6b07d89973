#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"
#include "trainer/config/train_config.h"
#include "trainer/device/device.h"
#include "trainer/distributed/ddp/exact_replica.h"
#include "trainer/distributed/process_group/factory.h"
#include "trainer/distributed/process_group/store.h"
#include "trainer/metrics/startup_trace.h"
#include "trainer/train/failure_report.h"
#include "trainer/train/workers.h"

namespace rollcall::train {

/// This rank among the others, where it computes, and the way to reach the others.
struct World {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t num_nodes = 1;
  std::string host;
  NodeShare share;  ///< of this rank
  device::Device device;
  std::vector<std::string> device_lines;             ///< for people: the ranks' devices; none where they are CPUs
  std::vector<std::string> device_warnings;          ///< devices or adapters that were to be expected are not used
  std::string left_aside;                            ///< InfiniBand adapter that NCCL does not take here; or empty
  std::string rendezvous;                            ///< how the ranks met: "pmix 127.0.0.1:43210"
  std::string backend;                               ///< "gloo", or "none" in a world of one
  process_group::ProcessGroupOptions group_options;  ///< of further groups
  c10::intrusive_ptr<c10d::Store> store;             ///< rank 0's holds the keys of all
  /// For what may be left behind: it does not keep them when the world goes.
  c10::intrusive_ptr<c10d::Store> group_store;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;  ///< null in a world of one

  /// How long this rank waits for its device. With other ranks the watchdog, which has to ask them, is to tell before.
  [[nodiscard]] std::chrono::milliseconds longest_wait() const {
    return world_size == 1 ? group_options.timeout : 2 * group_options.timeout + std::chrono::minutes(1);
  }
};

/// How a change of the world went (--elastic), in seconds from the moment at which a rank noticed it; see Living for
/// whose they are.
struct Recovery {
  std::string cause = {};  ///< one line: what was lost, or that nodes came or went; empty: no change
  double noticed = 0;      ///< seconds_now() of it
  double released = 0;     ///< until it had let go of the old groups
  double hold = 0;         ///< until the agent had said that the generation is over
  double joined = 0;       ///< until the ranks had met again
  double restored = 0;     ///< until the loop went on
};

/// Whose batches this rank trains with: its own or, with --elastic-exact, those of its virtual ranks.
[[nodiscard]] parallel::VirtualRanks virtual_ranks(const config::TrainConfig& config, const World& world);

/// Answers the roll call: resolves this step, puts the result into this process's environment, meets the other ranks
/// and makes the process group. PMIx, where it was used, is finalized before the return: a rank that dies afterwards
/// does not take the step down by itself. `report` gets the store as soon as there is one; `trace` the stages
/// rendezvous, store and process group (none in a world of one).
///
/// `lost`, which may be empty: whether an agent has said that ranks of this world are lost; then no collective waits
/// much longer. `over`, which may be empty: whether it has said that this world is over; then nothing waits for what
/// other ranks were to tell, now and in all groups that are made with the world's store.
///
/// Errors: those of resolve_this_step, meet and the process group. Blocks for at most setting `rendezvous.timeout`.
[[nodiscard]] Result<World> join_world(const step::ResolvedStep& step, const Environment& patched,
                                       const settings::LaunchSettings& launch, const config::ProcessGroupConfig& config,
                                       std::unique_ptr<launchers::PmixClient> pmix, FailureReport& report,
                                       metrics::StartupTrace& trace, const process_group::Interrupted& lost = {},
                                       const process_group::Interrupted& over = {});

/// How the ranks end a run that all of them end alike: rank 0, which holds the store, leaves last, so that the
/// watchdogs of the others still learn who has left in good order. Called by all ranks once all other groups are gone;
/// lets go of `world`'s own on all but rank 0, where it returns when all others have done so or ended.
/// Where a rank has died before, nobody waits for it.
void let_others_leave_first(World& world);

/// The same for an interrupted run: all but rank 0 end at once with 0, rank 0 returns and ends alone with the code that
/// says so. If all left with it, Slurm's --kill-on-bad-exit would kill the slower ranks of the step at the first one's
/// exit, and the step would end with the code of that signal.
void leave_interrupted(World& world);

}  // namespace rollcall::train
