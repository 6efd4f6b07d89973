#pragma once

#include <c10/core/Event.h>

#include <map>
#include <optional>
#include <string>

#include "trainer/torch.h"

namespace rollcall::checkpoint {

/// Copies of a training's tensors from a GPU to pinned memory of the host, which the GPU's copy engine makes while it
/// goes on computing. Its memory is allocated once per tensor and used again by the next save.
///
/// What changes at once is copied in the order of the stream that computes: what comes after waits. All else is copied
/// on a stream of its own, beside the next forward and backward passes; hold_back() lets the stream that computes wait
/// for it, on the GPU, so that no thread of the host does. One device; the current stream of the calling thread is the
/// one that computes. Tested on a stand-in device; not run on hardware.
///
/// wait() is for any thread, all else for the training's. c10::Error: the device failed.
class DeviceCopies {
 public:
  /// Takes the memory that copy() of this `name` and such `rows` needs, where there is none yet.
  void make_room(const std::string& name, const at::Tensor& rows);
  /// What `rows` holds now, contiguous, in memory of the host that is filled when wait() has returned, and stays so
  /// until the next copy() of this `name`. `changes_at_once`: with the next operator, not only by the optimizer.
  [[nodiscard]] at::Tensor copy(const std::string& name, const at::Tensor& rows, bool changes_at_once);
  /// What is put on the computing stream from now on may change what was copied.
  void hold_back();
  /// Blocks until all copies are there.
  void wait();

 private:
  struct Streams {
    explicit Streams(c10::Device device);
    c10::Device device;
    c10::Stream beside;  ///< for what the optimizer changes
    c10::Event copied_beside;
    c10::Event copied_in_order;
  };

  std::map<std::string, at::Tensor> pinned_;
  std::optional<Streams> streams_;  ///< from the first copy on
};

}  // namespace rollcall::checkpoint
