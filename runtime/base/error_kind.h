#pragma once

#include <optional>

#include "runtime/contract/exit_codes.h"

namespace rollcall {

/// What kind of failure an Error is. Code compares kinds, people read texts; a program's exit code follows from the
/// kind (exit_code()). The numbers are those that processes of one version send to each other.
enum class ErrorKind : int {
  Usage = 1,          ///< an unknown option, key or value
  Configuration,      ///< a configuration file is wrong
  BadData,            ///< a data set or checkpoint cannot be used: an empty class, damaged, of another model
  NoInput,            ///< a file or folder that was named does not exist or cannot be read
  CannotCreate,       ///< an output folder or file cannot be created
  InputOutput,        ///< reading or writing failed half-way: disk full, quota
  Mismatch,           ///< ranks, or Slurm and the user's variables, disagree; or a format of another version
  Unavailable,        ///< what is needed is not there: a name, a port, PMIx, memory of this process
  NobodyMet,          ///< rank 0's endpoint is known, and nobody who knows the secret answers there
  PeerLost,           ///< another rank ended or cannot be reached
  PeerLate,           ///< another rank did not come to a collective in time
  DeviceLost,         ///< the device of this rank fails
  DeviceOutOfMemory,  ///< the memory of this rank's device does not suffice
  Interrupted,        ///< TERM or USR1 ended the work in good order
  NotExecutable,      ///< a program is there but cannot be executed
  NotFound,           ///< no such program
  Internal,           ///< a bug of rollcall's
};

/// The exit code of a program that ends with an Error of this kind (docs/reference/errors.md).
[[nodiscard]] ExitCode exit_code(ErrorKind kind);

/// The kind with this number; nothing for a number of none.
[[nodiscard]] std::optional<ErrorKind> error_kind(int number);

}  // namespace rollcall
