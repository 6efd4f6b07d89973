#pragma once

#include <string_view>

// Of env_vars.h's kind, for the few that watch a job's time limit.
namespace rollcall::env {

inline constexpr std::string_view kSlurmJobEndTime = "SLURM_JOB_END_TIME";

}  // namespace rollcall::env
