#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/metrics/step_trace.h"

namespace rollcall::train {

/// Returns CLOCK_MONOTONIC in nanoseconds.
[[nodiscard]] std::int64_t nanoseconds_now();

/// Records the spans that PyTorch's RecordFunction reports from any part of the program (RECORD_USER_SCOPE) and from
/// each node of autograd: spans whose names have a category (metrics::Span), and the backward passes of the model's
/// parts. A node belongs to the part whose forward pass created it, by its sequence number, as in PyTorch's profiler
/// (torch/csrc/profiler). Without a recorder a reported span costs a look at an empty list.
///
/// One per process. Its functions are for one thread; it records spans of any thread.
class SpanRecorder {
 public:
  /// `most`: the highest number of spans.
  explicit SpanRecorder(std::size_t most);
  SpanRecorder(const SpanRecorder&) = delete;
  SpanRecorder& operator=(const SpanRecorder&) = delete;
  ~SpanRecorder();

  /// Sets whether spans that begin from now on are recorded; a span that has begun is recorded until its end.
  void record(bool on);
  /// Adds a span of the calling thread.
  void add(std::string name, std::int64_t begin, std::int64_t end);
  /// Returns all spans up to `end`, including the elapsed part of open ones, and stops recording.
  [[nodiscard]] std::vector<metrics::Span> take(std::int64_t end);
  /// Returns whether spans were lost because the limit was reached.
  [[nodiscard]] bool was_full() const;

 private:
  std::uint64_t callback_;
};

}  // namespace rollcall::train
