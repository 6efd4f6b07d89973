#pragma once

#include "runtime/base/environment.h"
#include "runtime/base/result.h"

namespace rollcall::device {

/// Sets the variables of this process that decide how libraries compute and connect devices; on CPUs they decide
/// nothing but AMX (avoid_unusable_amx()). `deterministic`: results are the same each time (--deterministic).
///
/// - c10d's own watchdog of NCCL is off. It ends the process by SIGABRT if a collective does not end, and names no
///   rank; rollcall's names the missing ones. `rollcall run` and torchrun turn it on for all workers, so its variables
///   are not the user's wish.
/// - The host never waits for a collective (blocking wait), which a capture does not allow.
/// - The user's value stays for cuBLAS's workspace (NVIDIA's cuBLAS manual, "Results reproducibility").
///
/// Call it before other threads start, as setenv(3) requires.
void set_library_variables(bool deterministic);

/// Checks what the user has set. `older`: LibTorch is 2.11. `tf32`: matrix products on a GPU are computed in TF32.
/// Errors (Usage): TunableOp of 2.11 asks for TF32 by the older of LibTorch's two interfaces, which is an error where
/// the newer one has set it (Context::allowTF32CuBLAS). Not run on hardware.
[[nodiscard]] Result<void> check_library_variables(const Environment& environment, bool tf32, bool older);

}  // namespace rollcall::device
