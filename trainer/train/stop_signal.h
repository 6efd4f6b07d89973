#pragma once

namespace rollcall::train {

/// TERM, USR1 and INT ask for an end. From `training_begins()` on they only set a flag: the loop saves a checkpoint at
/// its next step and ends (a checkpoint written inside a signal handler corrupts or hangs). A second INT ends the
/// process at once, for people at a keyboard.
///
/// Before that there is nothing to save. USR1 (the time limit is near) is remembered for the first step. TERM means
/// that the step is being ended, most likely since another rank failed under --kill-on-bad-exit: the process leaves at
/// once and silently, with an exit code that does not hide the other rank's (srun reports the highest of a step, and a
/// killed task counts 128 + signal).
///
/// Call once, before threads start. SA_RESTART is set, so that no system call of the libraries fails with EINTR.
void catch_stop_signals();
void training_begins();

/// The signal that arrived (SIGTERM, SIGUSR1, SIGINT), or 0. Any thread.
[[nodiscard]] int stop_signal();

}  // namespace rollcall::train
