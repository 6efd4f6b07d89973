#pragma once

#include <cstddef>
#include <memory>

namespace rollcall::parallel::fsdp {

/// Memory of what exists only while a block of the model computes: whole parameters, results of all-gathers, gradients
/// on their way. A pool of its own, apart from malloc's heap: there blocks that come and go between others that stay
/// leave holes which the process keeps, and what sharding saves would not show. Freed blocks serve the next request
/// that they are large enough for, so in steady state no page is fresh; the pool never holds more than was once in use
/// at the same time.
///
/// Copies share the pool. Thread-safe: a collective's thread may drop the last reference to a block.
class UnshardedMemory {
 public:
  UnshardedMemory();

  /// At least `bytes` (0 is allowed) with undefined values, aligned to a page; goes back to the pool with the last
  /// reference, also after the pool's end. Throws std::bad_alloc.
  [[nodiscard]] std::shared_ptr<char> take(std::size_t bytes) const;

  /// Bytes mapped now, in use or waiting for use.
  [[nodiscard]] std::size_t held() const;

 private:
  class Pool;
  std::shared_ptr<Pool> pool_;
};

}  // namespace rollcall::parallel::fsdp
