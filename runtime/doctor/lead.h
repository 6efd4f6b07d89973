#pragma once

#include "runtime/doctor/examine.h"
#include "runtime/doctor/wire/candidates.h"
#include "runtime/doctor/wire/ring_member.h"

namespace rollcall::doctor {

/// Rank 0's part: listens, gathers every rank's facts (its own from `observe`, run beside), then asks for clocks, ring
/// and benchmark. What is missing in the end says why.
[[nodiscard]] World lead(const job::JobFacts& step, const Limits& limits, const Candidates& candidates,
                         const Wishes& wishes, RingMember& ring, const std::function<TaskFacts()>& observe);

}  // namespace rollcall::doctor
