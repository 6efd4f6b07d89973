#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
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

/// This rank in its world: its number, its device, and its connection to the other ranks.
struct JobContext {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t num_nodes = 1;
  std::string host;
  NodeShare share;  ///< resources that this rank may use
  device::Device device;
  std::vector<std::string> device_lines;             ///< the ranks' devices for people; empty if they are CPUs
  std::vector<std::string> device_warnings;          ///< expected devices or adapters that are not used
  std::string rendezvous;                            ///< how the ranks connected: "pmix 127.0.0.1:43210"
  std::string backend;                               ///< "gloo", or "none" in a world of one
  process_group::ProcessGroupOptions group_options;  ///< options for further groups
  c10::intrusive_ptr<c10d::Store> store;             ///< rank 0's store holds the keys of all ranks
  /// A clone of `store` for groups that may be abandoned, so that they do not keep `store` alive.
  c10::intrusive_ptr<c10d::Store> group_store;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;  ///< null in a world of one

  /// Returns how long this rank waits for its device. With several ranks the watchdog, which must ask the other ranks,
  /// reports a failure earlier.
  [[nodiscard]] std::chrono::milliseconds longest_wait() const {
    return world_size == 1 ? group_options.timeout : 2 * group_options.timeout + std::chrono::minutes(1);
  }
};

/// The duration of a change of the world (--elastic), in seconds since a rank noticed it. See Handover for the rank
/// whose times count.
struct Recovery {
  std::string cause = {};  ///< one line: who was lost, or that nodes joined or left; empty: no change
  double noticed = 0;      ///< seconds_now() at which this rank noticed it
  double released = 0;     ///< until it had destroyed the old groups
  double hold = 0;         ///< until the agent had ended the generation
  double joined = 0;       ///< until the ranks were connected again
  double restored = 0;     ///< until the training loop continued
};

/// Returns the ranks whose batches this rank trains with: its own, or its virtual ranks with --elastic-exact.
[[nodiscard]] parallel::VirtualRanks virtual_ranks(const config::TrainConfig& config, const JobContext& context);

/// Resolves this step, sets the environment of this process accordingly, connects to the other ranks and creates the
/// process group. If PMIx was used, it is finalized before the return, so that a rank that dies afterwards does not end
/// the step by itself. `report` gets the store as soon as it exists; `trace` gets the stages rendezvous, store and
/// process group (none in a world of one rank).
///
/// `lost` (may be empty) returns whether an agent has reported lost ranks of this world; no collective waits much
/// longer then. `over` (may be empty) returns whether an agent has ended this world; nothing waits for other ranks
/// then, in this call and in all groups that are created with the world's store.
///
/// Errors: those of resolve_this_step, meet and the process group. Blocks for at most setting `rendezvous.timeout`.
[[nodiscard]] Result<JobContext> join_world(const step::ResolvedStep& step, const Environment& patched,
                                            const settings::LaunchSettings& launch,
                                            const config::ProcessGroupConfig& config,
                                            std::unique_ptr<launchers::PmixClient> pmix, FailureReport& report,
                                            metrics::StartupTrace& trace, const process_group::Interrupted& lost = {},
                                            const process_group::Interrupted& over = {});

/// Resolves this step and joins its world for a program other than rollcall-train. `threads`: for compute; unset: as
/// OMP_NUM_THREADS says. Errors: those of resolve_this_step() and join_world().
[[nodiscard]] Result<JobContext> join_this_step(const Environment& environment, const settings::LaunchSettings& launch,
                                                const config::ProcessGroupConfig& config, std::optional<int> threads,
                                                FailureReport& report);

/// Ends a run that all ranks end alike: rank 0, which holds the store, leaves last, so that the watchdogs of the other
/// ranks can still see who left in good order. All ranks call it after all other groups are destroyed. Destroys the
/// group of `context` on all ranks except rank 0, where it returns when all others have left or ended. If a rank died
/// before, no rank waits for it.
void let_others_leave_first(JobContext& context);

/// Ends an interrupted run: all ranks except rank 0 exit at once with 0; rank 0 returns and exits alone with the code
/// for an interruption. If all exited with that code, Slurm's --kill-on-bad-exit would kill the slower ranks of the
/// step at the first exit, and the step would end with the code of that signal.
void leave_interrupted(JobContext& context);

}  // namespace rollcall::train
