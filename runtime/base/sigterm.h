#pragma once

#include <chrono>

namespace rollcall {

/// Waits until this process gets SIGTERM, at most `patience`. A task that leaves the report of an error to another task
/// calls this before it ends: where a launcher ends all tasks with the first that fails, it would end the other one
/// before that has reported. Once the other one has ended, the launcher sends SIGTERM, and this process can still
/// choose its exit code. Replaces the handler of SIGTERM. For a process that does nothing else before it ends.
void wait_for_sigterm(std::chrono::seconds patience);

}  // namespace rollcall
