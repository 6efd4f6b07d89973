#pragma once

#include <torch/types.h>
#include <vector>

#include "trainer/train/outcome.h"

namespace rollcall::config {
struct TrainConfig;
}
namespace rollcall::checkpoint {
struct Progress;
}
namespace rollcall::elastic {
class AgentLink;
}

namespace rollcall::train {

class Checkpoints;
class Observer;
class TimeLimit;
struct Training;

/// The components of a run. All outlive it.
struct Run {
  const config::TrainConfig& config;
  const JobContext& context;
  Training& training;
  Checkpoints& checkpoints;
  Observer& observer;
  checkpoint::Progress& progress;  ///< start position of the run, kept up to date
  TimeLimit& limit;
  elastic::AgentLink* agent = nullptr;  ///< reports when the world changes; null: it does not
  bool captures = false;                ///< steps are captured as a graph (captures_steps())
};

/// Requests to a rank from outside.
struct Requests {
  bool to_stop = false;     ///< by a signal or the time limit: save and end
  bool to_regroup = false;  ///< by its agent: the world changes
};

struct LoopEnd {
  Outcome outcome = {};
  /// Model, moments and progress are consistent: false if it ended between the optimizer's step and its count.
  bool belong_together = true;
  std::vector<at::Tensor> buffers_before = {};  ///< with an agent: of the step in which it ended, see InMemoryState
};

/// Runs the training loop: epochs of steps, validation and checkpoints, until the end or until a stop signal reaches
/// any rank. (All ranks stop after the same step, because the signal travels with the step's totals.) On a device the
/// host receives a step's results while the device computes the next step; if something is due between the two, it
/// waits. Collective: every rank runs it with its own part of the data. Main thread only.
[[nodiscard]] LoopEnd run_loop(const Run& run);

}  // namespace rollcall::train
