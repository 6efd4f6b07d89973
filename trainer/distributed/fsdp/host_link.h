#pragma once

#include <c10/core/Event.h>
#include <functional>
#include <optional>

#include "trainer/distributed/fsdp/options.h"
#include "trainer/distributed/fsdp/unsharded_memory.h"
#include "trainer/torch.h"

namespace rollcall::parallel::fsdp {

/// The way between shards in main memory and the device that computes (Options::cpu_offload), as that of PyTorch's
/// CPUOffloadPolicy. Each direction has a stream of its own beside the one that computes, which is the calling thread's
/// current one; main memory is pinned, so that the device's copy engines work while it computes. Where the CPU
/// computes, copies are made on return and there are no streams.
///
/// One device. Main thread and autograd's thread, not both at once. c10::Error: the device failed, or has no streams.
class HostLink {
 public:
  /// Copies on the device live in `memory`, of that device; both outlive the link.
  HostLink(const UnshardedMemory& memory, Counters& counters);

  /// For tensors in main memory that travel.
  [[nodiscard]] at::TensorOptions host_options(at::ScalarType type) const;

  /// Uploads of one block; nothing where the CPU computes.
  using Uploaded = std::optional<c10::Event>;
  /// Runs `work` on the stream of uploads, behind what the computing stream has been given so far: upload(), and what
  /// takes its result.
  [[nodiscard]] Uploaded on_way_up(const std::function<void()>& work);
  /// A copy of `host`, one-dimensional, on the device. Until wait(), nobody changes `host`.
  [[nodiscard]] at::Tensor upload(const at::Tensor& host);
  /// Lets the computing stream wait for what one on_way_up() ran, and for none that came later.
  void await(const Uploaded& uploaded) const;

  /// `host` gets the values of `device`, which the computing stream made; they are there after wait().
  void download(at::Tensor& host, const at::Tensor& device);
  /// A copy in main memory; there on return, as is what was downloaded before.
  [[nodiscard]] at::Tensor downloaded(const at::Tensor& device);

  /// Blocks until all copies of both directions are made: the tensors in main memory may be read and changed.
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
  std::optional<Streams> streams_;  ///< where another device than the CPU computes
  at::Tensor leaving_;              ///< the last download's source, which the device may still read
};

}  // namespace rollcall::parallel::fsdp
