#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

#include "trainer/distributed/algorithms/algorithms.h"

namespace rollcall::process_group {

// Divides long messages, and orders the pieces that are sent around a ring of ranks.

/// A range of bytes.
struct Range {
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

/// Divides `bytes` into `parts` as evenly as whole elements allow.
class Chunks {
 public:
  Chunks(std::size_t bytes, std::size_t element_bytes, std::size_t parts)
      : elements_(bytes / element_bytes), element_bytes_(element_bytes), parts_(parts) {}

  [[nodiscard]] Range operator[](std::size_t part) const { return span(part, part + 1); }
  /// Returns the range of parts `first` to `last`, the last one excluded.
  [[nodiscard]] Range span(std::size_t first, std::size_t last) const {
    return Range{begin(first), begin(last) - begin(first)};
  }
  [[nodiscard]] std::size_t largest() const { return (elements_ + parts_ - 1) / parts_ * element_bytes_; }

 private:
  [[nodiscard]] std::size_t begin(std::size_t part) const {
    return (elements_ / parts_ * part + std::min(part, elements_ % parts_)) * element_bytes_;
  }

  std::size_t elements_;
  std::size_t element_bytes_;
  std::size_t parts_;
};

/// Divides chunks of up to `longest` bytes into the segments of a pipeline.
class Segments {
 public:
  Segments(const PlanContext& context, std::size_t longest) {
    // At least four a chunk, unless they would be shorter than 64 KiB: then the transfer hides most of the additions.
    constexpr std::size_t kShortest = std::size_t{64} << 10;
    const std::size_t wanted = std::min(context.segment_bytes, std::max(kShortest, (longest + 3) / 4));
    bytes_ = std::max<std::size_t>(1, wanted / context.element_bytes) * context.element_bytes;
    count_ = std::max<std::size_t>(1, (longest + bytes_ - 1) / bytes_);
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  /// Returns the size of a segment; the last ones may be shorter.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Returns segment `number` of `chunk`; empty beyond its end.
  [[nodiscard]] Range of(const Range& chunk, std::size_t number) const {
    const std::size_t from = std::min(number * bytes_, chunk.bytes);
    return Range{chunk.begin + from, std::min(bytes_, chunk.bytes - from)};
  }

 private:
  std::size_t bytes_ = 0;
  std::size_t count_ = 0;
};

/// The ranks in a ring, in which each rank sends to its right neighbour.
struct Ring {
  explicit Ring(const PlanContext& context) : rank(context.rank), size(context.world_size) {}

  [[nodiscard]] std::uint32_t right() const { return (rank + 1) % size; }
  [[nodiscard]] std::uint32_t left() const { return (rank + size - 1) % size; }

  /// Returns the chunk that this rank sends in round `round` of a reduce-scatter; it receives the one before. After the
  /// last of size - 1 rounds it has received chunk `rank`.
  [[nodiscard]] std::uint32_t reduced(std::uint32_t round) const { return (rank + 2 * size - 1 - round) % size; }
  /// Returns the chunk that this rank sends in round `round` of an all-gather, which begins with each rank's own.
  [[nodiscard]] std::uint32_t gathered(std::uint32_t round) const { return (rank + size - round) % size; }
  [[nodiscard]] std::uint32_t before(std::uint32_t chunk) const { return (chunk + size - 1) % size; }

  std::uint32_t rank;
  std::uint32_t size;
};

/// Calls `visit(round, segment, lane)` for each step of a ring. Blocks of `depth` segments go through all rounds: whole
/// chunks, round by round, would deadlock with a bounded number of scratch slots. `lane` is the segment's index in its
/// block.
inline void for_each_in_ring(const PlanContext& context, std::size_t segments, std::uint32_t rounds,
                             const std::function<void(std::uint32_t, std::size_t, std::size_t)>& visit) {
  for (std::size_t block = 0; block < segments; block += context.depth) {
    const std::size_t lanes = std::min(context.depth, segments - block);
    for (std::uint32_t round = 0; round < rounds; ++round) {
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        visit(round, block + lane, lane);
      }
    }
  }
}

}  // namespace rollcall::process_group
