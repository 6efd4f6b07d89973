#pragma once

#include <cstdint>

#include "trainer/torch.h"

namespace c10d {
class ProcessGroup;
}

/// A device for LibTorch (PrivateUse1) that stands in for a GPU on a machine without one, as strict as one in what
/// matters to code that moves tensors about:
///
/// - The host cannot read its memory: an access through a tensor's address ends the process with SIGSEGV.
/// - Operators take no tensor of the CPU beside its own, but for numbers.
/// - Copies are asynchronous, where a GPU's may be, and as late as streams and events allow: one is made only when
///   something that must come after it is about to happen. Code that forgets to wait reads what was there before.
/// - Freed memory serves the next request of its size on the same stream at once, as CUDA's caching allocator has it.
///
/// Operators are those of the CPU, so that results are the CPU's to the bit. A program that links this has the device,
/// and so has one that opens rollcall_stand_in.so (stand_in_plugin.cpp): rollcall-train --device=stand_in. It says
/// nothing about a real GPU's kernels, its speed or NCCL.
namespace rollcall::testing_support::stand_in {

[[nodiscard]] c10::Device device();

/// Lets the group carry the device's tensors, by its backend for CPUs; like NCCL a collective begins after what is on
/// the current stream at its call.
void add_backend(c10d::ProcessGroup& group);

/// What the program did so far.
struct Counts {
  std::int64_t late_copies = 0;  ///< that were put on a stream, and made later
  std::int64_t waits = 0;        ///< of a stream for an event
};
[[nodiscard]] Counts counts();

}  // namespace rollcall::testing_support::stand_in
