#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include <c10/core/DeviceGuard.h>

#include "trainer/device/kernels.h"
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
///   something that must come after it is about to happen. Code that forgets to wait reads what was there before. For
///   one from or to memory of the host that is not page-locked (or that goes by such memory, since types or strides
///   differ) the host waits, whatever was asked for.
/// - Freed memory serves the next request of its size on the same stream at once, as CUDA's caching allocator has it,
///   which counts what it gives out, and gives back what nobody uses before it says that there is no memory.
/// - While a stream is captured, nothing is done that it is given, and what CUDA forbids is an error: the default
///   stream, waiting on the host, memory of the host, events from outside, streams that nobody waits for at the end. A
///   graph does its work in the order in which it was captured, wherever its tensors were, whether they live or not.
///
/// STAND_IN_COUNT: there are as many such devices, up to 8. Each has memory and streams of its own, and operators take
/// tensors of one of them, which they make current while they are at work, as LibTorch's do for GPUs. What is not an
/// operator (memory, kernels, streams, captures, collectives) goes by the calling thread's current device: every thread
/// begins on the first one.
///
/// Operators are those of the CPU, so that results are the CPU's to the bit. A program that links this has the device,
/// and so has one that opens rollcall_stand_in.so (stand_in_plugin.cpp): rollcall-train --device=stand_in. It says
/// nothing about a real GPU's kernels, its speed or NCCL.
namespace rollcall::testing_support::stand_in {

/// The calling thread's.
[[nodiscard]] c10::Device device();
/// Those on which this process made something: memory, streams, events, work. On a GPU each costs a process some
/// hundred megabytes of its memory.
[[nodiscard]] std::vector<c10::DeviceIndex> contexts();

/// Lets the group carry tensors of the current device, and of no other, by its backend for CPUs. As with NCCL a
/// collective begins after what is on the current stream at its call, and waiting for it is the stream's: the host goes
/// on. Its values arrive as late as streams allow; c10::Error where what it reads has been changed by then, or its
/// memory used for something else.
void add_backend(c10d::ProcessGroup& group);
/// How many collectives backends of this process were given, and how many ended, as JSON.
[[nodiscard]] std::string flight_record();
[[nodiscard]] std::string health_check(c10d::Backend& backend);
/// Reduce-scatters that they were given, and of which a stream has seen the values.
struct ReduceScatters {
  std::int64_t given = 0;
  std::int64_t arrived = 0;
};
[[nodiscard]] ReduceScatters reduce_scatters();
/// Backends of this process that were aborted. As NCCL's, an abort ends when no graph has a collective of the backend.
struct Aborts {
  std::int64_t begun = 0;
  std::int64_t ended = 0;
  bool operator==(const Aborts&) const = default;
};
[[nodiscard]] Aborts aborts();
/// All-gathers that they were given.
[[nodiscard]] std::int64_t all_gathers_given();

/// What the program did so far.
struct Counts {
  std::int64_t late_copies = 0;  ///< that were put on a stream, and made later
  std::int64_t waits = 0;        ///< of a stream for an event
  /// Of the host, for all that a stream was given: copies between host and device that are not asynchronous, or whose
  /// memory of the host is not page-locked, operators whose outcome is a number of the host or has as many elements as
  /// the values say, synchronised streams.
  std::int64_t host_waits = 0;
  std::int64_t host_waits_for_event = 0;  ///< of the host, for what a stream was given up to a moment
  std::int64_t replays = 0;               ///< of graphs
  std::int64_t page_locks = 0;            ///< of memory of the host, anew
  std::int64_t page_locked_bytes = 0;     ///< of these
  std::int64_t page_locked_by_main = 0;   ///< bytes of these that the process's main thread waited for
  std::int64_t events = 0;                ///< that were recorded on a stream
  std::int64_t copies_to_host = 0;        ///< each by its own transfer
  /// Copies between device and host whose strides differ: LibTorch first has the device make a contiguous copy.
  std::int64_t reordered_copies = 0;
  std::int64_t casts = 0;     ///< of tensors on the device to another type; of a list of them, one
  std::int64_t searches = 0;  ///< for the fastest algorithm of a convolution, one for each new shape, as by cuDNN
};
[[nodiscard]] Counts counts();

/// Captures what `work` gives the current stream, and others by way of it, and returns what gives it to the then
/// current stream. See device::Plugin::capture.
[[nodiscard]] std::function<void()> capture(const std::function<void()>& work);
/// Whether the current stream is captured.
[[nodiscard]] bool is_captured();

/// For what the device does by itself: puts work on the current stream.
void enqueue(std::function<void()> work);
/// For the device's own operators: the values of one of its tensors behind all that the current stream was given, as a
/// tensor of the CPU that owns nothing.
[[nodiscard]] at::Tensor values_of(const at::Tensor& tensor);
/// While it lives, the device of those tensors is current; of all that are not the CPU's. c10::Error where these are of
/// several.
[[nodiscard]] c10::OptionalDeviceGuard on_device_of(std::initializer_list<at::TensorList> tensors);
/// The memory that an address of a device stands for, at once; null for null.
[[nodiscard]] void* behind(const void* address);
/// The device that an address is of.
[[nodiscard]] c10::DeviceIndex device_of(const void* address);

/// The project's own kernels, computed by the CPU as a GPU would (stand_in_kernels.cpp).
[[nodiscard]] const device::Kernels& own_kernels();

/// The same, before all that: for work that is enqueued.
[[nodiscard]] at::Tensor place_of(const at::Tensor& tensor);

}  // namespace rollcall::testing_support::stand_in
