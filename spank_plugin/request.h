#pragma once

#include <cstdint>
#include <string_view>

#include "spank_plugin/buffer.h"
#include "spank_plugin/failure.h"
#include "spank_plugin/site.h"
#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {

/// What a hook has `rollcall spank-hook` do, with the rights of this process's user, which are the job's (a task) or
/// srun's own. Everything that depends on a user's files and values, on a name server or on a file system is that
/// program's. It is started by the first request and stays for further ones until end_program(). Not thread-safe.
class Request {
 public:
  /// `shared`: descriptor of what the node's tasks share, or -1.
  Request(spank_t spank, const Site& site, int shared);

  void variable(std::string_view entry);  ///< "NAME=VALUE"
  void item(std::string_view name, std::string_view value);
  void item(std::string_view name, std::uint32_t value);

  /// Asks, and carries out what is answered: variables are set, lines are told. A failure without a text has been told.
  /// The program is killed where it does not answer in time or says what it should not.
  [[nodiscard]] Failure ask(std::string_view hook);

 private:
  spank_t spank_;
  const Site& site_;
  int shared_;
  Buffer text_;
};

[[nodiscard]] bool program_runs();
/// Ends the program, where one runs, and waits for it.
void end_program();
/// The same from a handler of a signal, without waiting.
void kill_program();

}  // namespace rollcall::spank
