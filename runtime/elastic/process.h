#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::elastic {

/// A program to be started as a worker.
struct ProcessPlan {
  std::vector<std::string> command;      ///< name first, looked up in this process's PATH where it has no '/'
  std::vector<std::string> environment;  ///< NAME=value, all of it
  int out = -1;                          ///< becomes its standard output; -1: this process's own
  int err = -1;
  int link = -1;                    ///< stays open under its number; -1: none
  int secret = -1;                  ///< the same
  std::vector<std::uint32_t> cpus;  ///< on which it may run; empty: where this process may
};

/// Starts it in a session of its own, with no signal blocked or ignored. It gets KILL when this process dies, however
/// that happens: workers without an agent would train on in a world that has given them up. Call it from the main
/// thread, whose end that is taken for. Returns its pid, which is also its session's number.
/// Error (NotFound, NotExecutable, Unavailable): it cannot be started.
[[nodiscard]] Result<pid_t> start_process(const ProcessPlan& plan);

/// What to try where the system refused with `error_number`: a higher limit where there were no more descriptors or
/// processes, else `otherwise`.
[[nodiscard]] std::string what_to_try(int error_number, const std::string& otherwise);

/// This process may open as many files as the system lets it: a coordinator has a connection to each node. What it
/// starts has the limit of before. Call it once, from the main thread.
void raise_own_open_files_limit();

/// The living processes of these sessions, zombies not counted (/proc/PID/stat).
[[nodiscard]] std::vector<pid_t> living_members(std::span<const pid_t> sessions);

/// The file that execvp(3) would execute for `name`; empty where there is none.
[[nodiscard]] std::string find_program(const std::string& name, const std::string& search_path);

}  // namespace rollcall::elastic
