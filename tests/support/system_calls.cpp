#include "tests/support/system_calls.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>

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

/// Whether this call is one that is to go wrong.
bool strikes(Call call) {
  if (!active || plan.call != call) {
    return false;
  }
  const std::size_t number = ++calls;
  return number == plan.nth || (plan.fault == Fault::Lasting && number > plan.nth);
}

struct Entry {
  std::uint32_t rank = 0;
  pid_t thread = 0;
  std::array<char, 200> text{};
};

/// In memory that forked processes share, so that the calls of all ranks have one order.
struct Trace {
  std::atomic<bool> on{false};
  std::atomic<std::size_t> count{0};
  std::array<Entry, 20'000> entries{};
};

Trace* trace = nullptr;  ///< allocated by the first start_trace(), and kept
std::uint32_t traced_rank = 0;

bool tracing() { return trace != nullptr && trace->on; }

void note(const std::string& text) {
  const std::size_t index = trace->count++;
  if (index >= trace->entries.size()) {
    std::abort();
  }
  Entry& entry = trace->entries[index];
  entry.rank = traced_rank;
  entry.thread = static_cast<pid_t>(::syscall(SYS_gettid));
  std::strncpy(entry.text.data(), text.c_str(), entry.text.size() - 1);
}

/// "run/step-00000002.h5.tmp" of ".../run/step-00000002.h5.tmp-host-4711".
std::string short_name(const std::string& path) {
  const std::filesystem::path whole(path);
  const std::string name = whole.parent_path().filename().string() + "/" + whole.filename().string();
  const std::size_t temporary = name.find(".tmp-");
  return temporary == std::string::npos ? name : name.substr(0, temporary) + ".tmp";
}

void note_of_file(const char* call, int file) {
  if (!tracing()) {
    return;
  }
  const int error_number = errno;
  std::array<char, PATH_MAX> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const bool known = ::readlink(link.c_str(), path.data(), path.size() - 1) > 0;
  note(std::string(call) + " " + (known ? short_name(path.data()) : "?"));
  errno = error_number;
}

void note_of_paths(const char* call, const std::string& names) {
  if (tracing()) {
    note(std::string(call) + " " + names);
  }
}

ssize_t write_with_fault(int file, const void* bytes, std::size_t count, off_t offset) {
  note_of_file("write", file);
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
    case Fault::Lasting:
      break;
  }
  errno = plan.error_number;
  return -1;
}

ssize_t read_with_fault(int file, void* bytes, std::size_t count, off_t offset) {
  note_of_file("read", file);
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

void start_trace() {
  if (trace == nullptr) {
    void* const memory = ::mmap(nullptr, sizeof(Trace), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      std::abort();
    }
    trace = new (memory) Trace;
  }
  trace->count = 0;
  trace->on = true;
}

std::vector<TracedCall> stop_trace() {
  trace->on = false;
  std::vector<TracedCall> traced;
  for (std::size_t i = 0; i < trace->count; ++i) {
    const Entry& entry = trace->entries[i];
    traced.push_back({entry.rank, entry.thread, entry.text.data()});
  }
  return traced;
}

void trace_as(std::uint32_t rank) { traced_rank = rank; }

void mark_trace(const std::string& text) { note_of_paths("==", text); }

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
  note_of_file("fsync", file);
  if (strikes(Call::Sync)) {
    errno = plan.error_number;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, file));
}
ROLLCALL_EXPORTED int rename(const char* from, const char* to) noexcept {
  note_of_paths("rename", short_name(from) + " " + short_name(to));
  if (strikes(Call::Rename)) {
    errno = plan.error_number;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_rename, from, to));
}
ROLLCALL_EXPORTED int unlink(const char* path) noexcept {
  note_of_paths("unlink", short_name(path));
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
ROLLCALL_EXPORTED int symlink(const char* target, const char* path) noexcept {
  note_of_paths("symlink", std::string(target) + " " + short_name(path));
  return static_cast<int>(::syscall(SYS_symlinkat, target, AT_FDCWD, path));
}
ROLLCALL_EXPORTED int fallocate(int file, int mode, off_t offset, off_t length) {
  note_of_file("allocate", file);
  if (strikes(Call::Allocate)) {
    errno = plan.error_number;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fallocate, file, mode, offset, length));
}
