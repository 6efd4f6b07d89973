#pragma once

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/settings/settings.h"

namespace rollcall::bootstrap {

/// Makes the facts of a whole step those of the world that this task belongs to. With setting world=component in a het
/// step that is the task's component. Without it, a rollcall that encloses this one in the same step (`srun
/// --ddp=world=component` around `rollcall exec` or the trainer) has decided, and what it decided holds: its ranks are
/// in the environment. Error (Usage, setting world): nothing says which nodes are which component's. Pure.
[[nodiscard]] Result<void> choose_world(const Environment& environment, const settings::Settings& settings,
                                        job::JobFacts& facts);

}  // namespace rollcall::bootstrap
