#pragma once

namespace rollcall::train {

/// From now on TERM, USR1 and INT only set a flag: the loop saves a checkpoint at its next step and ends (a checkpoint
/// written inside a signal handler corrupts or hangs). A second INT ends the process at once, for people at a keyboard.
/// Call once, before threads start. SA_RESTART is set, so that no system call of the libraries fails with EINTR.
void catch_stop_signals();

/// The signal that arrived (SIGTERM, SIGUSR1, SIGINT), or 0. Async-signal-safe counterpart of the above; any thread.
[[nodiscard]] int stop_signal();

}  // namespace rollcall::train
