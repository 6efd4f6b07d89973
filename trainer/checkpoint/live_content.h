#pragma once

#include <set>
#include <string>

#include "trainer/checkpoint/background/snapshot.h"
#include "trainer/checkpoint/device_copies.h"
#include "trainer/checkpoint/state_parts.h"

namespace rollcall::checkpoint {

/// Converts `parts` for a BackgroundSaver without a copy; the tensors stay alive meanwhile. Tensors of `parameter_keys`
/// and below /optimizer/state and /ema change with the optimizer's next step, all others at once. Tensors of a GPU are
/// copied by `device_copies`, which outlives the save: call its block_compute_stream() before the optimizer's step.
[[nodiscard]] background::LiveContent live_content(const StateParts& parts, const std::set<std::string>& parameter_keys,
                                                   DeviceCopies& device_copies);

/// Allocates the memory into which a save of such `parts` copies from a GPU, so that no save waits for it: page-locking
/// memory takes longer than copying into it.
void make_room(const StateParts& parts, const std::set<std::string>& parameter_keys, DeviceCopies& device_copies);

}  // namespace rollcall::checkpoint
