#pragma once

namespace rollcall {

/// Exit codes of all rollcall programs. They follow BSD's sysexits(3) where a meaning fits, and so differ from 1 and 2
/// (used by shells and Slurm) and from 128 + signal. `docs/reference/errors.md` lists them for users.
enum class ExitCode : int {
  Success = 0,
  Ended = 1,     ///< ended by TERM before it began, probably because another rank failed; lower than any cause's code
  Usage = 64,    ///< unknown option, key or value (EX_USAGE)
  BadData = 65,  ///< a dataset or checkpoint cannot be used: an empty class, damage, another model (EX_DATAERR)
  NoInput = 66,  ///< a given file or folder does not exist or cannot be read (EX_NOINPUT)
  Unavailable = 69,     ///< a name does not resolve, a port is in use, a peer is lost, PMIx is absent (EX_UNAVAILABLE)
  Internal = 70,        ///< a bug in rollcall (EX_SOFTWARE)
  CannotCreate = 73,    ///< an output folder or file cannot be created (EX_CANTCREAT)
  InputOutput = 74,     ///< reading or writing failed: disk full, quota (EX_IOERR)
  Interrupted = 75,     ///< TERM or USR1 arrived and a checkpoint was saved: requeue and resume (EX_TEMPFAIL)
  Mismatch = 76,        ///< the ranks, or Slurm and the user's variables, disagree (EX_PROTOCOL)
  Configuration = 78,   ///< a configuration file is wrong (EX_CONFIG)
  NotAdmitted = 79,     ///< `rollcall run`: the run succeeded without this node (not in sysexits)
  NotExecutable = 126,  ///< `rollcall exec`: the program exists but cannot be executed (as in shells)
  NotFound = 127,       ///< `rollcall exec`: the program does not exist (as in shells)
};

constexpr int to_int(ExitCode code) { return static_cast<int>(code); }

}  // namespace rollcall
