#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/base/environment.h"

namespace rollcall::job {

/// Seconds in squeue's notation of the time left (%L): "1-02:03:04", "2:03:04", "3:04". Nothing for "UNLIMITED",
/// "NOT_SET", "INVALID" and all else. Pure.
[[nodiscard]] std::optional<std::int64_t> parse_time_left(std::string_view text);

/// When Slurm ends this job, in seconds since the epoch, `now` being the same clock: SLURM_JOB_END_TIME (Slurm 24.11
/// and newer), or squeue is asked. Nothing outside of a job, without a limit, or where squeue does not answer.
[[nodiscard]] std::optional<double> job_end_time(const Environment& environment, double now);

/// What squeue says: also right after somebody changed the limit of the running job. Nothing as above.
[[nodiscard]] std::optional<double> ask_job_end_time(const Environment& environment, double now);

}  // namespace rollcall::job
