#pragma once

#include <sys/types.h>

#include <climits>
#include <cstddef>

#include "spank_plugin/failure.h"
#include "spank_plugin/site.h"

namespace rollcall::spank {

/// Where this plugin was loaded from, "" where the system does not tell. Not by dladdr(3), which lies in another
/// library before glibc 2.34.
struct OwnFile {
  OwnFile();
  char path[PATH_MAX] = "";
};

/// Finds the program `rollcall` that hooks run: rollcall= of `site`, or, where it is not there, bin/rollcall in the
/// nearest folder above this plugin's file that has it (PREFIX/bin/rollcall for
/// PREFIX/lib/ARCHITECTURE/rollcall/spank_rollcall.so); in a build folder it is runtime/rollcall.
///
/// It is believed only where it and all folders that it lies in belong to root, to the owner of the plugin's file or of
/// the root folder, or to whom config_owner= names, and nobody else may write there: it runs as every user who asks for
/// --ddp. `rollcall install` judges by the same rules (runtime/install/hook_program.h). Failures: NotFound;
/// Configuration.
[[nodiscard]] Failure find_program(const Site& site, char (&path)[PATH_MAX]);

/// A child process that this one talks to over a socket.
struct Program {
  pid_t pid = -1;
  int socket = -1;

  [[nodiscard]] bool runs() const { return pid > 0; }
};

/// Becomes `path` with arguments "spank-hook VERSION" in a child, with /dev/null as its input, the socket and `shared`
/// as hook_wire.h has them, and no other descriptor beyond this process's own standard output and error. It ends with
/// this process, and takes no TERM, which is this process's to judge. Of a process of slurmstepd's it has no variable
/// but the loader's own (LD_...): what slurmd was started with is not the user's to see.
[[nodiscard]] Failure start_program(const char* path, int shared, bool of_slurmstepd, Program& program);

/// Kills and reaps it. What is not gone after a second, since it waits in the kernel, is left behind.
void stop_program(Program& program);

/// How it ended: an exit code, or 128 + signal. For one that has closed its socket; kills it where it goes on.
[[nodiscard]] int status_of_end(Program& program);

/// Milliseconds of CLOCK_MONOTONIC.
[[nodiscard]] long now();

enum class Io { Done, Closed, Late };

/// Sends or receives `size` bytes, until `deadline` at most (now()).
[[nodiscard]] Io send_all(int socket, const char* data, std::size_t size, long deadline);
[[nodiscard]] Io receive_all(int socket, char* data, std::size_t size, long deadline);

}  // namespace rollcall::spank
