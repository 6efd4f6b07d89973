#pragma once

#include <optional>

#include "runtime/contract/exit_codes.h"

namespace rollcall {

/// The kind of an Error. Code compares kinds, and people read the texts. The exit code of a program follows from the
/// kind (exit_code()). Processes of the same version send each other these numbers.
enum class ErrorKind : int {
  Usage = 1,             ///< an unknown option, key or value
  Configuration,         ///< a configuration file is wrong
  BadData,               ///< a dataset or checkpoint cannot be used: an empty class, damage, or another model
  NoInput,               ///< a given file or folder does not exist or cannot be read
  CannotCreate,          ///< an output folder or file cannot be created
  InputOutput,           ///< reading or writing failed: disk full, quota
  Mismatch,              ///< ranks, or Slurm and the user's variables, disagree; or a file has another version's format
  Unavailable,           ///< a resource is missing: a name, a port, PMIx, memory of this process
  RendezvousUnanswered,  ///< the endpoint of rank 0 is known, but no process that knows the secret answers there
  PeerLost,              ///< another rank ended or is unreachable
  PeerTimeout,           ///< another rank did not join a collective in time
  DeviceLost,            ///< the device of this rank failed
  DeviceOutOfMemory,     ///< the device of this rank has too little memory
  Interrupted,           ///< TERM or USR1 ended the work in an orderly way
  NotExecutable,         ///< a program exists but cannot be executed
  NotFound,              ///< a program does not exist
  Internal,              ///< a bug in rollcall
};

/// Returns the exit code of a program that ends with an Error of this kind (docs/reference/errors.md).
[[nodiscard]] ExitCode exit_code(ErrorKind kind);

/// Returns the kind with this number, or nothing where no kind has it.
[[nodiscard]] std::optional<ErrorKind> error_kind(int number);

}  // namespace rollcall
