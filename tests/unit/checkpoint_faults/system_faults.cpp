#include "tests/unit/checkpoint_faults/system_faults.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace rollcall::testing_support {
namespace {

struct Plan {
  Call call = Call::Write;
  std::size_t nth = 0;
  Fault fault = Fault::Error;
  int error_number = 0;
};

Plan plan;
std::atomic<bool> active{false};
std::atomic<std::size_t> calls{0};

/// Whether this call is the one that is to go wrong.
bool strikes(Call call) { return active && plan.call == call && ++calls == plan.nth; }

ssize_t write_with_fault(int file, const void* bytes, std::size_t count, off_t offset) {
  if (!strikes(Call::Write)) {
    return ::syscall(SYS_pwrite64, file, bytes, count, offset);
  }
  switch (plan.fault) {
    case Fault::Short:
      return ::syscall(SYS_pwrite64, file, bytes, count / 2, offset);
    case Fault::Lost:
      return static_cast<ssize_t>(count);
    case Fault::Flipped: {
      auto* const copy = static_cast<char*>(std::aligned_alloc(4096, (count + 4095) / 4096 * 4096));
      std::memcpy(copy, bytes, count);
      copy[count / 2] = static_cast<char>(copy[count / 2] ^ 4);
      const ssize_t written = ::syscall(SYS_pwrite64, file, copy, count, offset);
      std::free(copy);
      return written;
    }
    case Fault::Error:
      break;
  }
  errno = plan.error_number;
  return -1;
}

ssize_t read_with_fault(int file, void* bytes, std::size_t count, off_t offset) {
  if (!strikes(Call::Read)) {
    return ::syscall(SYS_pread64, file, bytes, count, offset);
  }
  if (plan.fault == Fault::Short) {
    return ::syscall(SYS_pread64, file, bytes, count / 2, offset);
  }
  errno = plan.error_number;
  return -1;
}

}  // namespace

void inject(Call call, std::size_t nth, Fault fault, int error_number) {
  plan = {call, nth, fault, error_number};
  calls = 0;
  active = true;
}

std::size_t stop() {
  active = false;
  return calls;
}

}  // namespace rollcall::testing_support

// The linker prefers these to the C library's, in shared libraries as well.
using namespace rollcall::testing_support;

#define ROLLCALL_EXPORTED extern "C" __attribute__((visibility("default")))

ROLLCALL_EXPORTED ssize_t pwrite(int file, const void* bytes, std::size_t count, off_t offset) {
  return write_with_fault(file, bytes, count, offset);
}
ROLLCALL_EXPORTED ssize_t pwrite64(int file, const void* bytes, std::size_t count, off_t offset) {
  return write_with_fault(file, bytes, count, offset);
}
ROLLCALL_EXPORTED ssize_t pread(int file, void* bytes, std::size_t count, off_t offset) {
  return read_with_fault(file, bytes, count, offset);
}
ROLLCALL_EXPORTED ssize_t pread64(int file, void* bytes, std::size_t count, off_t offset) {
  return read_with_fault(file, bytes, count, offset);
}
ROLLCALL_EXPORTED int fsync(int file) {
  if (strikes(Call::Sync)) {
    errno = plan.error_number;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, file));
}
ROLLCALL_EXPORTED int rename(const char* from, const char* to) noexcept {
  if (strikes(Call::Rename)) {
    errno = plan.error_number;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_rename, from, to));
}
ROLLCALL_EXPORTED int fallocate(int file, int mode, off_t offset, off_t length) {
  if (strikes(Call::Allocate)) {
    errno = plan.error_number;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fallocate, file, mode, offset, length));
}
