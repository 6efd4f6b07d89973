#pragma once

namespace rollcall {

/// Exit codes of every rollcall program. The numbers are those of BSD's sysexits(3) wherever a meaning fits, so that
/// they stay clear of 1 and 2 (used by shells and Slurm itself) and of 128 + signal. `docs/reference/errors.md` lists
/// them for users.
enum class ExitCode : int {
  Success = 0,
  Ended = 1,     ///< ended by TERM before it had begun, most likely since another rank failed; lower than all causes
  Usage = 64,    ///< unknown option, key or value (EX_USAGE)
  BadData = 65,  ///< the data set or a checkpoint cannot be used: empty class, damaged, another model (EX_DATAERR)
  NoInput = 66,  ///< a file or folder that was named does not exist or cannot be read (EX_NOINPUT)
  Unavailable = 69,     ///< name does not resolve, port in use, peer lost, PMIx absent (EX_UNAVAILABLE)
  Internal = 70,        ///< a bug of rollcall's: please report (EX_SOFTWARE)
  CannotCreate = 73,    ///< an output folder or file cannot be created (EX_CANTCREAT)
  InputOutput = 74,     ///< reading or writing failed half-way: disk full, quota (EX_IOERR)
  Interrupted = 75,     ///< TERM or USR1 arrived, a checkpoint was saved: requeue and resume (EX_TEMPFAIL)
  Mismatch = 76,        ///< the ranks, or Slurm and the user's variables, disagree (EX_PROTOCOL)
  Configuration = 78,   ///< a configuration file is wrong (EX_CONFIG)
  NoPlace = 79,         ///< `rollcall run`: the run ended well, and this node never had a place in it (beyond sysexits)
  NotExecutable = 126,  ///< `rollcall exec`: the program is there but cannot be executed (as shells do)
  NotFound = 127,       ///< `rollcall exec`: no such program (as shells do)
};

constexpr int to_int(ExitCode code) { return static_cast<int>(code); }

}  // namespace rollcall
