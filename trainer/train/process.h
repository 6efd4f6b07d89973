#pragma once

#include <chrono>
#include <cstdint>

namespace rollcall::train {

/// Applies the process-wide settings that must precede the first tensor:
/// - The allocator keeps freed tensor memory (keep_tensor_memory()): activations are allocated and freed in every step,
///   and fresh pages from mmap cost 1-7 % of a step on CPUs.
/// - `threads` sets the number of compute threads; 0 leaves LibTorch's choice. Setting OMP_NUM_THREADS now would be too
///   late, because the OpenMP run time read it when it was loaded.
/// - SIGPIPE is ignored, so that writing to a dead peer returns an error (Gloo writes without MSG_NOSIGNAL).
void prepare_process(int threads);

/// Makes malloc keep freed tensor memory and use it again for later tensors of that size: large blocks come from the
/// heap and stay there.
///
/// LibTorch aligns tensors with posix_memalign(), for which glibc 2.36 needs a larger hole than the block it left, so
/// that with blocks in between a heap grows to more than twice of what it holds. This allocator aligns tensors (to
/// c10::gAlignment) within an ordinary block instead. The setting holds for the whole process until it ends; call it
/// before any tensor exists. Failed allocations throw c10::Error as LibTorch's own do.
void keep_tensor_memory();

/// Returns the seconds of a monotonic clock.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns the seconds since the epoch, as Slurm counts them.
inline double wall_seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Resources that this process has used so far.
struct Usage {
  std::uint64_t peak_memory = 0;  ///< highest resident memory, bytes
  double cpu_seconds = 0;
};

[[nodiscard]] Usage usage_of_this_process();

/// Returns the peak resident memory of this program in bytes (proc(5), VmHWM). usage_of_this_process() would include
/// that of the program that started it.
[[nodiscard]] std::uint64_t peak_memory();

}  // namespace rollcall::train
