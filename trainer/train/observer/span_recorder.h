#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/metrics/step_trace.h"

namespace rollcall::train {

/// Nanoseconds of CLOCK_MONOTONIC.
[[nodiscard]] std::int64_t nanoseconds_now();

/// What PyTorch's RecordFunction is told, by any part of the program (RECORD_USER_SCOPE) and by each node of
/// autograd's: spans whose names have a category (metrics::Span), and the backward passes of the model's parts. A node
/// belongs to the part whose forward pass made it, by its sequence number, as in PyTorch's profiler
/// (torch/csrc/profiler). Where there is no recorder nobody is told, and a place that tells costs a look at a list.
///
/// One per process; its functions are for one thread, what it records may be any thread's.
class SpanRecorder {
 public:
  /// For at most so many spans.
  explicit SpanRecorder(std::size_t most);
  SpanRecorder(const SpanRecorder&) = delete;
  SpanRecorder& operator=(const SpanRecorder&) = delete;
  ~SpanRecorder();

  /// Whether what begins from now on is recorded; what has begun is recorded to its end.
  void record(bool on);
  /// A span of the calling thread.
  void add(std::string name, std::int64_t begin, std::int64_t end);
  /// All spans up to `end`, and of those that are under way what there was of them; none is recorded any more.
  [[nodiscard]] std::vector<metrics::Span> take(std::int64_t end);
  /// There was no room for all of them.
  [[nodiscard]] bool was_full() const;

 private:
  std::uint64_t callback_;
};

}  // namespace rollcall::train
