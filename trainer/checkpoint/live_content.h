#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "trainer/checkpoint/background/snapshot.h"
#include "trainer/checkpoint/state_parts.h"

namespace rollcall::checkpoint {

/// `parts` for a BackgroundSaver, without a copy; the tensors stay alive meanwhile. What is under `parameter_keys` and
/// below /optimizer/state changes with the optimizer's next step, all else at once. Tensors of other devices are copied
/// to the host here.
[[nodiscard]] background::LiveContent live_content(const StateParts& parts,
                                                   const std::set<std::string>& parameter_keys);

}  // namespace rollcall::checkpoint
