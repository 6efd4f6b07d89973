#pragma once

#include <c10/core/Event.h>
#include <functional>
#include <optional>

#include "trainer/distributed/fsdp/options.h"
#include "trainer/distributed/fsdp/unsharded_memory.h"
#include "trainer/torch.h"

namespace rollcall::parallel::fsdp {

/// Copies shards between main memory and the device that computes (Options::cpu_offload), as PyTorch's CPUOffloadPolicy
/// does. Each direction has its own stream besides the compute stream, which is the calling thread's current one. Main
/// memory is pinned, so that the device's copy engines work while it computes. If the CPU computes, copies are complete
/// on return and there are no streams.
///
/// For one device. For the main thread and autograd's thread, not both at once. Throws c10::Error if the device fails
/// or has no streams.
class HostLink {
 public:
  /// Copies on the device are in `memory`, which is of that device; both outlive the link.
  HostLink(const UnshardedMemory& memory, Counters& counters);

  /// Returns the options for tensors in main memory that are copied.
  [[nodiscard]] at::TensorOptions host_options(at::ScalarType type) const;

  /// The end of one block's uploads; unset if the CPU computes.
  using Uploaded = std::optional<c10::Event>;
  /// Runs `work`, which calls upload() and uses its result, on the stream of uploads, after what is enqueued on the
  /// compute stream so far.
  [[nodiscard]] Uploaded run_on_upload_stream(const std::function<void()>& work);
  /// Returns a copy of `host`, one-dimensional, on the device. `host` must not change until wait().
  [[nodiscard]] at::Tensor upload(const at::Tensor& host);
  /// Makes the compute stream wait for these uploads, and for none that were started later.
  void await(const Uploaded& uploaded) const;

  /// Copies `device`, which the compute stream made, to `host`; complete after wait().
  void download(at::Tensor& host, const at::Tensor& device);
  /// Returns a copy in main memory. It and all earlier downloads are complete on return.
  [[nodiscard]] at::Tensor downloaded(const at::Tensor& device);

  /// Blocks until all copies of both directions are complete: the tensors in main memory may be read and changed.
  void wait();

 private:
  struct Streams {
    explicit Streams(c10::Device device);
    c10::Stream up;
    c10::Stream down;
    c10::Event downloaded;
  };

  const UnshardedMemory& memory_;
  Counters& counters_;
  std::optional<Streams> streams_;  ///< unset if the CPU computes
  at::Tensor leaving_;              ///< the last download's source, which the device may still read
};

}  // namespace rollcall::parallel::fsdp
