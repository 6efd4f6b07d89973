#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// System calls of this program that can be made to fail and that can be noted, those of the HDF5 library among them:
/// the program defines the C library's functions anew.
namespace rollcall::testing_support {

enum class Call { Write, Sync, Rename, Allocate, Read };

enum class Fault {
  Error,    ///< fails with `error_number`
  Lasting,  ///< fails with `error_number`, and so do all calls of its kind after it
  Short,    ///< transfers half of the bytes and says so
  Lost,     ///< says that it wrote all, and writes nothing
  Flipped,  ///< writes all, one bit of it wrong
};

/// Until the next call of inject() or stop(), the `nth` call (from 1) of this kind has that fault. All calls are
/// counted.
void inject(Call call, std::size_t nth, Fault fault, int error_number = 0);
/// No more faults; how many calls of the kind given to inject() there were.
std::size_t stop();

/// A call of pwrite, pread, fsync, rename, fallocate, unlink or symlink, or a mark.
struct TracedCall {
  std::uint32_t rank = 0;  ///< what trace_as() was told in that process
  pid_t thread = 0;
  std::string text;  ///< "write run/step-00000002.h5.tmp": last folder and name, temporary names without their numbers
};

/// Notes calls from here on, those too of processes that are forked from here on, all in one order.
void start_trace();
/// The calls since start_trace(), in the order in which they began.
[[nodiscard]] std::vector<TracedCall> stop_trace();
/// Calls of this process are those of `rank` from here on.
void trace_as(std::uint32_t rank);
/// Notes "== <text>" in between.
void mark_trace(const std::string& text);

}  // namespace rollcall::testing_support
