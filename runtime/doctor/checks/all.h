#pragma once

#include "runtime/doctor/finding.h"
#include "runtime/doctor/world.h"

namespace rollcall::doctor {

/// The checks, one file each. Pure, never empty: where there is nothing to look at, the finding is Absent and says why.
[[nodiscard]] Findings check_answer(const World& world);
[[nodiscard]] Findings check_way(const World& world);
[[nodiscard]] Findings check_environment(const World& world);
[[nodiscard]] Findings check_own_name(const World& world);
[[nodiscard]] Findings check_head_name(const World& world);
[[nodiscard]] Findings check_reverse_name(const World& world);
[[nodiscard]] Findings check_interface(const World& world);
[[nodiscard]] Findings check_head_port(const World& world);
[[nodiscard]] Findings check_ring(const World& world);
[[nodiscard]] Findings check_clock(const World& world);
[[nodiscard]] Findings check_scratch(const World& world);
[[nodiscard]] Findings check_venv(const World& world);
[[nodiscard]] Findings check_versions(const World& world);
[[nodiscard]] Findings check_devices(const World& world);
[[nodiscard]] Findings check_cpus(const World& world);
[[nodiscard]] Findings check_shm(const World& world);
[[nodiscard]] Findings check_memlock(const World& world);
[[nodiscard]] Findings check_speed(const World& world);
[[nodiscard]] Findings check_collectives(const World& world);

}  // namespace rollcall::doctor
