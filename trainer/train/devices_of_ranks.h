#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// Whether all ranks have a device, of one kind, and no two the same one; keeps World::device_lines. `taken`: whether
/// this rank has. The same on all ranks. Collective. Errors: the first rank's; (Mismatch) kinds; (Unavailable) one
/// device for two ranks, or a peer was lost.
[[nodiscard]] Result<void> agree_on_devices(World& world, const Result<void>& taken);

/// In a world of one: its device, for people; none for the CPU.
[[nodiscard]] std::vector<std::string> device_lines(const World& world);

/// "0-3,8" of ascending numbers. Pure.
[[nodiscard]] std::string ranges_text(const std::vector<std::uint32_t>& numbers);

}  // namespace rollcall::train
