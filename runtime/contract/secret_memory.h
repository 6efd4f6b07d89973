#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>
#include <string_view>

namespace rollcall {

/// Creates a sealed memory file (memfd_create(2)) with `text`, "JOB.STEP SECRET", which rendezvous::shared_secret()
/// reads from the descriptor in ROLLCALL_SECRET_FD. Used by `rollcall run` and by the plugin, which links only libc.
/// The descriptor's number is above those that scripts use (bash's are below 256), as far as the limit allows.
/// `inherited` keeps it open across exec. The caller closes it. Returns -1 with errno set where the kernel refuses.
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
