#pragma once

namespace rollcall::device {

/// Makes oneDNN do without AMX where the processor names it and cannot be used with it: some virtual machines show the
/// feature but not its tiles, or their kernel refuses tile state, and the first bfloat16 matrix product then ends the
/// process with SIGILL. Sets ONEDNN_MAX_CPU_ISA of this process unless it is set. Call it before the first tensor is
/// computed with; not thread-safe, as setenv(3).
void avoid_unusable_amx();

}  // namespace rollcall::device
