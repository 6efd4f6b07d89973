#pragma once

#include <sys/types.h>

#include <climits>
#include <cstddef>

#include "spank_plugin/failure.h"
#include "spank_plugin/site.h"

namespace rollcall::spank {

/// The path of this plugin's file; "" where it is unknown. It does not use dladdr(3), which is in another library
/// before glibc 2.34.
struct OwnFile {
  OwnFile();
  char path[PATH_MAX] = "";
};

/// Finds the program `rollcall` that hooks run: rollcall= of `site`, or without it bin/rollcall in the nearest folder
/// above this plugin's file that has one (PREFIX/bin/rollcall for PREFIX/lib/rollcall/slurm-22.05/spank_rollcall.so).
/// In a build folder it is runtime/rollcall.
///
/// The program runs as every user of --ddp. Therefore it and all folders above it must belong to root, to the owner of
/// the plugin's file or of the root folder, or to the user of config_owner=, and nobody else may write to them.
/// `rollcall install` checks the same (runtime/install/hook_program.h). Failures: NotFound; Configuration.
[[nodiscard]] Failure find_program(const Site& site, char (&path)[PATH_MAX]);

/// A child process with a socket to it.
struct Program {
  pid_t pid = -1;
  int socket = -1;

  [[nodiscard]] bool runs() const { return pid > 0; }
};

/// Starts `path` with the arguments "spank-hook VERSION" in a child process. Its standard input is /dev/null. It has
/// the descriptors of hook_wire.h and this process's standard output and error, and no others. It ends with this
/// process and ignores SIGTERM, which this process handles. A child of slurmstepd has only the loader's variables
/// (LD_...), because slurmd's environment is not for users.
[[nodiscard]] Failure start_program(const char* path, int shared, bool of_slurmstepd, Program& program);

/// Kills and reaps the program. Gives up after a second where it waits in the kernel.
void stop_program(Program& program);

/// Returns the exit code, or 128 + signal, of a program that has closed its socket. Kills it where it does not end.
[[nodiscard]] int status_of_end(Program& program);

/// Returns the milliseconds of CLOCK_MONOTONIC.
[[nodiscard]] long now();

enum class Io { Done, Closed, Late };

/// Sends `size` bytes before `deadline`, a time of now().
[[nodiscard]] Io send_all(int socket, const char* data, std::size_t size, long deadline);
/// Receives `size` bytes before `deadline`.
[[nodiscard]] Io receive_all(int socket, char* data, std::size_t size, long deadline);

}  // namespace rollcall::spank
