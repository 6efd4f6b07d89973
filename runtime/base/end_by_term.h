#pragma once

#include <csignal>

namespace rollcall {

/// While it lives, SIGTERM ends this process at once and without a word, with exit code 1: below the code of every
/// cause, so that a step that Slurm ends for its first failing task has that task's exit code. The signal's own way,
/// 143 for a shell and for srun, would be above all of them. exec(3) ends it, too. Not for a process that has something
/// to save. One at a time; the constructor changes the whole process.
class EndByTerm {
 public:
  EndByTerm();
  ~EndByTerm();
  EndByTerm(const EndByTerm&) = delete;
  EndByTerm& operator=(const EndByTerm&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace rollcall
