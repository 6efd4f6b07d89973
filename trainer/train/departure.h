#pragma once

#include "trainer/train/world.h"

namespace rollcall::train {

/// How the ranks end an interrupted run: all but rank 0 leave at once with 0, rank 0 leaves last and alone with the
/// code that says so. If all left with it, Slurm's --kill-on-bad-exit would kill the slower ranks of the step at the
/// first one's exit, and the step would end with the code of that signal. Returns on rank 0 only, after at most 10
/// seconds. The others' process group is let go of before, so that none of them seems to be lost.
void let_others_leave_first(World& world);

}  // namespace rollcall::train
