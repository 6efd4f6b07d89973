#pragma once

#include <chrono>
#include <thread>

namespace rollcall::step {

/// For a task that ends with an error which another task of the step tells: the first that ends has Slurm kill the
/// step, so it lets the one that tells come first, which may be slower by seconds on a busy node. Where that one has
/// told and ended, Slurm's SIGTERM ends this wait with the process, whose exit code then has to be below that of every
/// cause. Runs in the task, with the user's rights.
inline void let_others_tell() { std::this_thread::sleep_for(std::chrono::seconds(15)); }

}  // namespace rollcall::step
