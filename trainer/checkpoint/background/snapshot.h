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

/// A tensor of a checkpoint whose values lie in a running training's own memory.
struct LiveTensor {
  format::TensorView view;      ///< what it is in the checkpoint; without bytes
  format::StridedBytes values;  ///< `data` null: this rank gives nothing of it
  bool changes_at_once = true;  ///< false: it stays as it is until the optimizer's next step
  bool is_copy = false;         ///< of a device's memory already, under way or there; contiguous, nobody changes it
};

/// What this rank gives to a checkpoint, not copied yet.
struct LiveContent {
  std::vector<LiveTensor> tensors;
  std::map<std::string, format::Value> values;
  std::vector<std::shared_ptr<const void>> owners;  ///< keep the memory of `tensors` alive until it is copied
  std::function<Result<void>()> wait_arrived;       ///< until all that is_copy is there, on any thread; may be empty
};

/// A copy of a training's state that is made in two parts: what changes at once, at once; and what only the optimizer
/// changes, later, while the next forward and backward passes run. Its memory is allocated once and used again.
///
/// Any number of threads may be in copy_rest(), none in it or in let_go() during begin(). The thread of begin() may
/// change what changes_at_once as soon as it returns, and the rest as soon as a copy_rest() has.
class Snapshot {
 public:
  /// Errors (Unavailable): there is no memory for the copy.
  [[nodiscard]] Result<void> begin(LiveContent live);
  /// Copies, tensor by tensor, what no other thread has begun yet; returns when everything is copied.
  void copy_rest();
  /// Waits without helping.
  void wait_copied() const;
  /// Until what a device copies is there. Errors: the device's.
  [[nodiscard]] Result<void> wait_arrived() const { return wait_arrived_ ? wait_arrived_() : Result<void>(); }
  /// The training's memory, which is not needed any more. After copy_rest() and wait_arrived().
  void let_go() { owners_.clear(); }
  /// Complete after copy_rest() and wait_arrived(); valid until the next begin().
  [[nodiscard]] const format::Content& content() const { return content_; }
  /// Memory that is held.
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
  std::atomic<std::size_t> next_{0};    ///< of `rest_`
  std::atomic<std::size_t> copied_{0};  ///< of `rest_`
  std::vector<std::shared_ptr<const void>> owners_;
  std::function<Result<void>()> wait_arrived_;
};

}  // namespace rollcall::checkpoint::background
