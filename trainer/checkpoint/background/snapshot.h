#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/strided_copy.h"

namespace rollcall::checkpoint::background {

/// A tensor of a checkpoint whose values are in the memory of a running training.
struct LiveTensor {
  format::TensorView view;      ///< its description in the checkpoint, without bytes
  format::StridedBytes values;  ///< `data` null: this rank writes nothing of it
  bool changes_at_once = true;  ///< false: unchanged until the optimizer's next step
  bool is_copy = false;         ///< already a copy of a device's memory, complete or in progress
};

/// This rank's part of a checkpoint, not copied yet.
struct LiveContent {
  std::vector<LiveTensor> tensors;
  std::map<std::string, format::Value> values;
  std::vector<std::shared_ptr<const void>> owners;  ///< keep the memory of `tensors` alive until it is copied
  /// Waits until all is_copy tensors are complete, on any thread; may be empty.
  std::function<Result<void>()> wait_arrived;
};

/// A copy of a training's state that is made in two parts: tensors that change at once are copied at once; tensors that
/// only the optimizer changes are copied later, during the next forward and backward passes. The memory is allocated
/// once and used again.
///
/// Any number of threads may be in copy_rest(), but none in it or in release() during begin(). The thread that calls
/// begin() may change the changes_at_once tensors after it returns, and the others after a copy_rest() has returned.
class Snapshot {
 public:
  /// Starts a copy of `live`. Errors (Unavailable): there is no memory for the copy.
  [[nodiscard]] Result<void> begin(LiveContent live);
  /// Copies, tensor by tensor, what no other thread has started; returns when everything is copied.
  void copy_rest();
  /// Waits for the copy without helping.
  void wait_copied() const;
  /// Waits for the copies from a device, and copies those that are not row-major once more. Call it once, on any
  /// thread. Errors: the device's.
  [[nodiscard]] Result<void> take_arrived();
  /// Releases the training's memory. Call it after copy_rest() and take_arrived().
  void release() { owners_.clear(); }
  /// Returns the content, which is complete after copy_rest() and take_arrived() and valid until the next begin().
  [[nodiscard]] const format::Content& content() const { return content_; }
  /// Returns the bytes of memory that are held.
  [[nodiscard]] std::size_t capacity() const { return capacity_; }

 private:
  struct Copy {
    format::StridedBytes from;
    std::span<std::byte> to;
  };

  [[nodiscard]] Result<void> reserve(std::size_t bytes);

  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t capacity_ = 0;
  format::Content content_;
  std::vector<Copy> rest_;
  std::vector<Copy> arrived_;           ///< of a device's memory, with its strides
  std::atomic<std::size_t> next_{0};    ///< index in `rest_`
  std::atomic<std::size_t> copied_{0};  ///< number of tensors of `rest_`
  std::vector<std::shared_ptr<const void>> owners_;
  std::function<Result<void>()> wait_arrived_;
};

}  // namespace rollcall::checkpoint::background
