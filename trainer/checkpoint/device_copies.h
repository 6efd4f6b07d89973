#pragma once

#include <c10/core/Event.h>

#include <map>
#include <optional>
#include <string>

#include "trainer/torch.h"

namespace rollcall::checkpoint {

/// Copies a training's tensors from a GPU to pinned host memory with the GPU's copy engine, while the GPU continues to
/// compute. The memory is allocated once for each tensor and used again by the next save.
///
/// Tensors that change at once are copied in the order of the compute stream, so that later work waits. All others are
/// copied on a separate stream, beside the next forward and backward passes; block_compute_stream() makes the compute
/// stream wait for them on the GPU, so that no host thread waits. One device; the calling thread's current stream is
/// the compute stream. Tested on a stand-in device; not run on hardware.
///
/// wait() may be called from any thread, all other functions only from the training's thread. c10::Error: the device
/// failed.
class DeviceCopies {
 public:
  /// Allocates the memory that copy() of this `name` and such `rows` needs, unless it exists.
  void make_room(const std::string& name, const at::Tensor& rows);
  /// Returns host memory that holds the current values of `rows`, contiguous, once wait() has returned, and until the
  /// next copy() of this `name`. `changes_at_once`: the next operator may change `rows`, and not only the optimizer.
  [[nodiscard]] at::Tensor copy(const std::string& name, const at::Tensor& rows, bool changes_at_once);
  /// Makes later work on the compute stream wait for the copies, because it may change what is copied.
  void block_compute_stream();
  /// Blocks until all copies have arrived.
  void wait();

 private:
  struct Streams {
    explicit Streams(c10::Device device);
    c10::Device device;
    c10::Stream beside;  ///< for tensors that only the optimizer changes
    c10::Event copied_beside;
    c10::Event copied_in_order;
  };

  std::map<std::string, at::Tensor> pinned_;
  std::optional<Streams> streams_;  ///< unset before the first copy
};

}  // namespace rollcall::checkpoint
