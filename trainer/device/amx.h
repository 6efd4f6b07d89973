#pragma once

namespace rollcall::device {

/// Turns AMX off in oneDNN if the processor reports it but cannot use it: some virtual machines report the feature but
/// not its tiles, or their kernel refuses tile state, and the first bfloat16 matrix product then ends the process with
/// SIGILL. Sets ONEDNN_MAX_CPU_ISA of this process unless it is set. Call it before the first computation with tensors;
/// not thread-safe, as setenv(3).
void avoid_unusable_amx();

}  // namespace rollcall::device
