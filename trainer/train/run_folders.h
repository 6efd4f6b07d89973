#pragma once

#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::train {

/// The folders that a run writes to.
struct RunFolders {
  std::string checkpoints;
  std::string run;                    ///< metrics.jsonl
  std::string stage;                  ///< in which checkpoints are made first; empty: none
  std::vector<std::string> warnings;  ///< "SCRATCH is not set, ..."
};

/// --checkpoint-dir and --run-dir, else below $SCRATCH/rollcall/<job name>, else below ./rollcall/<job name> with a
/// warning. Jobs of one name share a folder: that is how a job that is submitted again finds its checkpoints. Nothing
/// is created. Errors: a ${VARIABLE} in a path is not set.
[[nodiscard]] Result<RunFolders> choose_run_folders(const settings::Settings& settings, const Environment& environment);

}  // namespace rollcall::train
