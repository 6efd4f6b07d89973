#pragma once

#include <c10/core/Event.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/torch.h"

namespace rollcall::checkpoint {

/// Copies a training's tensors from a GPU to pinned host memory with the GPU's copy engine, while the GPU continues to
/// compute. The memory is allocated once and used again by the next save.
///
/// Tensors that change at once are copied in the order of the compute stream, so that later work waits. All others are
/// copied on a separate stream, beside the next forward and backward passes, if these are no graph;
/// block_compute_stream() makes the compute stream wait for them on the GPU, so that no host thread waits. Small
/// tensors are first gathered on the GPU, by type, and copied together: a model has hundreds, and each copy costs the
/// host and the copy engine some microseconds. One device; the calling thread's current stream is the compute stream.
/// Tested on a stand-in device; not run on hardware.
///
/// wait() may be called from any thread, all other functions only from the training's thread. c10::Error: the device
/// failed.
class DeviceCopies {
 public:
  /// A tensor to be copied.
  struct Source {
    at::Tensor rows;              ///< of the device, of any layout
    bool changes_at_once = true;  ///< the next operator may change it, and not only the optimizer
  };

  /// Allocates the memory that copy() of such `sources` needs, unless it exists.
  void make_room(const std::vector<Source>& sources);
  /// Returns host memory for each source that holds its current values once wait() has returned, and until the next
  /// copy(). It has the strides of the source, or is contiguous if the source's elements are not adjacent.
  [[nodiscard]] std::vector<at::Tensor> copy(const std::vector<Source>& sources);
  /// Makes later work on the compute stream wait for the copies, because it may change what is copied.
  void block_compute_stream();
  /// Blocks until all copies have arrived.
  void wait();

 private:
  struct Streams {
    explicit Streams(c10::Device device);
    c10::Device device;
    c10::Stream beside;  ///< for tensors that only the optimizer changes
    c10::Event copied_in_order;
    c10::Event copied;  ///< both, since one stream waits for the other
  };
  /// Small tensors of one type that are copied on the same stream.
  struct Pack {
    at::ScalarType type;
    bool changes_at_once;
    std::int64_t elements = 0;
    at::Tensor on_device = {}, on_host = {};
  };
  /// Host memory of one source.
  struct Place {
    at::Tensor host = {};  ///< with a pack, a view of its memory
    bool changes_at_once = true;
    std::optional<std::size_t> pack = {};  ///< index; unset: the source is copied alone
    std::int64_t first_element = 0;        ///< in the pack
  };
  [[nodiscard]] bool has_room(const std::vector<Source>& sources) const;
  [[nodiscard]] Place place_in_pack(const Source& source);
  void copy_some(const std::vector<Source>& sources, bool changes_at_once);

  std::vector<Place> places_;  ///< in the order of the sources
  std::vector<Pack> packs_;
  std::optional<Streams> streams_;  ///< unset before the first memory
};

}  // namespace rollcall::checkpoint
