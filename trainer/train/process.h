#pragma once

#include <chrono>
#include <cstdint>

namespace rollcall::train {

/// Settings of this process that must be made before the first tensor:
/// - memory of tensors is kept (keep_tensor_memory()): activations are allocated and freed every step, and fresh pages
///   from mmap cost 1-7 % of a step on CPUs;
/// - `threads` compute threads; 0 leaves LibTorch's choice. OMP_NUM_THREADS set by us now would come too late: the
///   OpenMP run time read it when it was loaded;
/// - writing to a peer that died is an error that is told, not the end by SIGPIPE (Gloo writes without MSG_NOSIGNAL);
/// - no AMX where it would end the process (device::avoid_unusable_amx).
void prepare_process(int threads);

/// Sets the process up to keep the memory of tensors and to use it again for the next ones of their size: malloc's
/// large blocks come from the heap and stay there, and tensors take them in a way that lets a freed one serve again.
///
/// LibTorch aligns tensors with posix_memalign(), for which glibc 2.36 needs a larger hole than the block it
/// left, so that with blocks in between a heap grows to twice what it holds and more. Here tensors
/// are aligned (to c10::gAlignment) within an ordinary block. For the whole process and its whole life; call it before
/// tensors are made. Failed allocations throw c10::Error as LibTorch's own do.
void keep_tensor_memory();

/// Seconds of a monotonic clock.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds since the epoch, as Slurm counts them.
inline double wall_seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Of this process so far: the most memory that was resident, and CPU seconds.
struct Usage {
  std::uint64_t peak_memory = 0;
  double cpu_seconds = 0;
};

[[nodiscard]] Usage usage_of_this_process();

}  // namespace rollcall::train
