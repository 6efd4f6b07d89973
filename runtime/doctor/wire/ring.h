#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/result.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::doctor {

using rendezvous::Clock;
using rendezvous::Socket;

/// A member of a ring of `size` processes: it sends to its right and receives from its left neighbour. The collective
/// operations are the ring algorithms (Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations", J. Parallel Distrib. Comput. 69, 2009). All members must call the same operation with the same sizes.
/// Errors (Unavailable): a neighbour is lost, or `deadline` is over.
class Ring {
 public:
  /// The sockets must outlive the ring. `index` < `size`, `size` > 1.
  Ring(const Socket& left, const Socket& right, std::uint32_t index, std::uint32_t size, Clock::time_point deadline)
      : left_(left), right_(right), index_(index), size_(size), deadline_(deadline) {}

  /// Sums in place; the length must be a multiple of size().
  [[nodiscard]] Result<void> all_reduce(std::span<float> data);
  /// Sums; afterwards the member's own part, part index() of size(), is complete. The other parts are scratch.
  [[nodiscard]] Result<void> reduce_scatter(std::span<float> data);
  /// Distributes every member's own part to all.
  [[nodiscard]] Result<void> all_gather(std::span<float> data);
  /// Member 0's data to all, handed on in pieces.
  [[nodiscard]] Result<void> broadcast(std::span<float> data);

  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }

 private:
  /// Part i, counted around the ring: i may be negative or beyond size.
  [[nodiscard]] std::span<float> part(std::span<float> data, std::int64_t i) const;
  [[nodiscard]] Result<void> step(std::span<const float> outgoing, std::span<float> incoming);

  const Socket& left_;
  const Socket& right_;
  std::uint32_t index_;
  std::uint32_t size_;
  Clock::time_point deadline_;
};

}  // namespace rollcall::doctor
