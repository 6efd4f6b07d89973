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
  std::vector<std::string> command;      ///< name first; looked up in this process's PATH where it has no '/'
  std::vector<std::string> environment;  ///< NAME=value, complete
  int out = -1;                          ///< becomes standard output; -1: inherited
  int err = -1;
  int link = -1;                    ///< stays open under its number; -1: none
  int secret = -1;                  ///< stays open under its number; -1: none
  std::vector<std::uint32_t> cpus;  ///< CPU affinity; empty: inherited
};

/// Starts a process in a session of its own, with no signal blocked or ignored. It gets KILL when this process dies for
/// any reason, since workers without an agent would continue in a world that has given them up. To be called from the
/// main thread, because the kernel sends KILL when the calling thread ends. Returns the pid, which is also the
/// session's number. Errors (NotFound, NotExecutable, Unavailable): it cannot be started.
[[nodiscard]] Result<pid_t> start_process(const ProcessPlan& plan);

/// Raises this process's limit of open files to the hard limit, because a coordinator has a connection to each node.
/// Child processes get the earlier limit. To be called once, from the main thread.
void raise_own_open_files_limit();

/// Returns the live processes of these sessions, without zombies (/proc/PID/stat).
[[nodiscard]] std::vector<pid_t> living_members(std::span<const pid_t> sessions);

/// Returns the file that execvp(3) would execute for `name`; empty where there is none.
[[nodiscard]] std::string find_program(const std::string& name, const std::string& search_path);

/// The first file for `name`, where execvp(3) would look, that exists but cannot be executed; empty where there is
/// none.
[[nodiscard]] std::string find_not_executable(const std::string& name, const std::string& search_path);

}  // namespace rollcall::elastic
