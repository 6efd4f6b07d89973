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

/// What a run trains with. All outlives it.
struct Run {
  const config::TrainConfig& config;
  const World& world;
  Training& training;
  Checkpoints& checkpoints;
  Observer& observer;
  checkpoint::Progress& progress;  ///< says where to begin, and is kept up to date
  TimeLimit& limit;
  elastic::AgentLink* agent = nullptr;  ///< says when the world changes; null where it does not
  bool captures = false;                ///< steps are captured as a graph (captures_steps())
};

/// What a rank was asked for from outside.
struct Asked {
  bool to_stop = false;     ///< by a signal or the time limit: to save and end
  bool to_regroup = false;  ///< by its agent: the world changes
};

struct LoopEnd {
  Outcome outcome = {};
  /// Model, moments and progress do: not where it ended between the optimizer's step and its being counted.
  bool belong_together = true;
  std::vector<at::Tensor> buffers_before = {};  ///< with an agent, of the step in which it ended: see Kept
};

/// The training loop: epochs of steps, validation, checkpoints, until the end or until a stop signal reached any rank
/// (all ranks stop after the same step: the signal travels with the step's totals). On a device the host hears of a
/// step while the device computes the next one; where something is due between the two, it waits. Collective: every
/// rank runs it with its own part of the data. Main thread only.
[[nodiscard]] LoopEnd run_loop(const Run& run);

}  // namespace rollcall::train
