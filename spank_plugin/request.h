#pragma once

#include <cstdint>
#include <string_view>

#include "spank_plugin/buffer.h"
#include "spank_plugin/failure.h"
#include "spank_plugin/site.h"
#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {

/// A request of a hook to `rollcall spank-hook`, which runs with the rights of this process's user: the job's user (in
/// a task) or srun's. That program does all work that depends on users' files and values, a name server or a file
/// system. The first request starts it, and it serves further ones until end_program(). Not thread-safe.
class Request {
 public:
  /// `shared` is the descriptor of the memory that the node's tasks share, or -1.
  Request(spank_t spank, const Site& site, int shared);

  void variable(std::string_view entry);  ///< "NAME=VALUE"
  void item(std::string_view name, std::string_view value);
  void item(std::string_view name, std::uint32_t value);

  /// Sends the request and carries out the answer: it sets variables and prints lines. A failure without a text has
  /// been reported. The program is killed where it does not answer in time or its answer is invalid.
  [[nodiscard]] Failure ask(std::string_view hook);

 private:
  spank_t spank_;
  const Site& site_;
  int shared_;
  Buffer text_;
};

[[nodiscard]] bool program_runs();
/// Ends the program, if it runs, and waits for it.
void end_program();
/// Kills the program without waiting. Async-signal-safe.
void kill_program();

}  // namespace rollcall::spank
