#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rollcall {

/// Whether a child of this process can become that user: this one is root's, and the user namespace knows that user.
inline bool can_become(uid_t user) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(setuid(user) == 0 ? 0 : 1);
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace rollcall
