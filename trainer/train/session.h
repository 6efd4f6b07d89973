#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/elastic/worker_link.h"
#include "runtime/step/resolved_step.h"
#include "trainer/config/options.h"
#include "trainer/train/elastic/survival.h"
#include "trainer/train/failure_report.h"
#include "trainer/train/run_folder/lease.h"
#include "trainer/train/step/training.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// What a training is asked for. All outlives it.
struct SessionInput {
  const config::Options& options;
  const step::ResolvedStep& step;
  const Environment& environment;
  const std::vector<std::string>& arguments;
  elastic::AgentLink* agent = nullptr;  ///< that of a training which lives on when its world changes (--elastic)
};

/// What a process has in memory when it joins a world.
struct InMemory {
  std::optional<Lease> lease = {};  ///< of the world before, where this process was its rank 0
  std::optional<Kept> kept = {};    ///< of the world before
  Ready ready = {};                 ///< new, of rehearse()
};

struct SessionEnd {
  int exit_code = 0;
  std::string reported = {};       ///< rank 0's: the folder of which a report is to be made, if any
  double noticed = 0;              ///< seconds_now() of that
  std::optional<Error> lost = {};  ///< with an agent: a peer was lost, or nodes come or go; nothing was told yet
  InMemory left = {};              ///< with `lost`: what this process can go on with
};

/// Trains in `world`, from the configuration to the end or to the loss of a peer. Every rank calls it.
[[nodiscard]] SessionEnd run_session(const SessionInput& input, FailureReport& report, World& world, InMemory memory);

}  // namespace rollcall::train
