#pragma once

#include <optional>

#include "runtime/base/result.h"

namespace rollcall::train {

/// A failure, and whether it is only the echo of another rank's.
struct Failure {
  Error error;
  bool lost_peer = false;
};

enum class Ending {
  Finished,     ///< all epochs or --max-steps done
  Interrupted,  ///< a stop signal arrived at some rank, or the job's limit is near; a checkpoint was saved
  Failed,
};

struct Outcome {
  Ending ending = Ending::Finished;
  std::optional<Failure> failure;  ///< with Ending::Failed
};

}  // namespace rollcall::train
