#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>
#include <string_view>

namespace rollcall {

/// A sealed memory file (memfd_create(2)) with `text`, "JOB.STEP SECRET", as rendezvous::shared_secret() reads it where
/// ROLLCALL_SECRET_FD names it: for the plugin, which links libc alone, and `rollcall run`. Its number is beyond those
/// that people choose (bash's are below 256), as far as the limit allows. `inherited`: programs that this process
/// becomes have it, too. The caller closes it; -1: the kernel refuses, and errno says why.
inline int secret_memory(std::string_view text, bool inherited) {
  const int file = ::memfd_create("rollcall-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) {
    return -1;
  }
  int high = -1;
  if (::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0) {
    for (const int lowest : {900, 200, 20}) {
      high = high < 0 ? ::fcntl(file, inherited ? F_DUPFD : F_DUPFD_CLOEXEC, lowest) : high;
    }
  }
  const int reason = errno;
  ::close(file);
  errno = reason;
  return high;
}

}  // namespace rollcall
