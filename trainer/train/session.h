#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/elastic/worker_link.h"
#include "runtime/step/resolved_step.h"
#include "trainer/config/options.h"
#include "trainer/train/elastic/handover.h"
#include "trainer/train/failure_report.h"
#include "trainer/train/job_context.h"
#include "trainer/train/run_folder/lease.h"
#include "trainer/train/step/training.h"

namespace rollcall::train {

/// The request of a training. All references outlive it.
struct SessionInput {
  const config::Options& options;
  const step::ResolvedStep& step;
  const Environment& environment;
  const std::vector<std::string>& arguments;
  /// Link to the agent of a training that continues when its world changes; else null.
  elastic::AgentLink* agent = nullptr;
};

/// State that a process has in memory when it joins a world.
struct SessionStart {
  std::optional<Lease> lease = {};         ///< lease of the previous world, if this process was its rank 0
  std::optional<InMemoryState> kept = {};  ///< training state of the previous world
  Prepared ready = {};                     ///< prepared by prepare_standby() in a standby process
};

/// The result of run_session().
struct SessionEnd {
  int exit_code = 0;
  std::string reported = {};       ///< on rank 0: folder of the run to print a report of; empty: none
  double noticed = 0;              ///< seconds_now() at which `lost` was noticed
  std::optional<Error> lost = {};  ///< with an agent: a peer was lost or nodes join or leave; not reported yet
  SessionStart next_start = {};    ///< with `lost`: the state from which this process can continue
};

/// Trains in `context`, from the configuration to the end of the training or to the loss of a peer. Every rank calls
/// it.
[[nodiscard]] SessionEnd run_session(const SessionInput& input, FailureReport& report, JobContext& context,
                                     SessionStart memory);

}  // namespace rollcall::train
