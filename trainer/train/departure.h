#pragma once

#include "trainer/train/world.h"

namespace rollcall::train {

/// How the ranks end a run that all of them end alike: rank 0, which holds the store, leaves last. A watchdog of
/// another rank that asked the store afterwards would make LibTorch print a warning with a stack trace. Called by all
/// ranks once all other groups are gone; lets go of `world`'s own on all but rank 0, where it returns when all others
/// have called it, at most 10 seconds later.
void let_others_leave_first(World& world);

/// The same for an interrupted run: all but rank 0 end at once with 0, rank 0 returns and ends alone with the code that
/// says so. If all left with it, Slurm's --kill-on-bad-exit would kill the slower ranks of the step at the first one's
/// exit, and the step would end with the code of that signal.
void leave_interrupted(World& world);

}  // namespace rollcall::train
