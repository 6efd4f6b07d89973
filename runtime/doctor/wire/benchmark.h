#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/doctor/world.h"
#include "runtime/rendezvous/endpoint.h"
#include "runtime/rendezvous/listener.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::doctor {

using rendezvous::Clock;
using rendezvous::Socket;

/// A member of a ring of `size` processes: it sends to its right and receives from its left neighbour.
class Ring {
 public:
  /// The sockets must outlive the ring. `index` < `size`, `size` > 1.
  Ring(const Socket& left, const Socket& right, std::uint32_t index, std::uint32_t size, Clock::time_point deadline)
      : left_(left), right_(right), index_(index), size_(size), deadline_(deadline) {}

  /// Sums in place, by the ring algorithm (Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
  /// workstations", J. Parallel Distrib. Comput. 69, 2009); the length must be a multiple of size(). All members call
  /// it with the same length. Errors (Unavailable): a neighbour is lost, or `deadline` is over.
  [[nodiscard]] Result<void> all_reduce(std::span<float> data);

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

/// This process's place in the ring of the benchmark: a port for its left neighbour, a connection to its right one.
class RingMember {
 public:
  /// Listens on a port of the kernel's choice; neighbours know the step's `secret`.
  explicit RingMember(const rendezvous::Secret& secret);

  /// 0: it could not listen.
  [[nodiscard]] std::uint16_t port() const { return listener_ ? listener_->port() : std::uint16_t{0}; }

  /// Connects to the right neighbour at the first endpoint that works. "" or what went wrong. Does not depend on the
  /// neighbour's program being at the same place: its kernel accepts, and who it is shows when measuring begins.
  [[nodiscard]] std::string connect(const std::vector<rendezvous::Endpoint>& neighbours, Clock::time_point deadline);

  /// Accepts the left neighbour and runs the benchmark; all members do at the same time, after all have connected.
  [[nodiscard]] Benchmark measure(std::uint32_t index, std::uint32_t size, Clock::time_point deadline);

 private:
  /// Accepts the left neighbour; each neighbour and this member show each other that they know the secret. The
  /// vectors then go in clear: they are measured, and hold nothing.
  [[nodiscard]] Result<Socket> accept_left(Clock::time_point deadline);

  rendezvous::Seal seal_;
  std::optional<rendezvous::Listener> listener_;
  Socket right_;
};

/// Times all-reduces of vectors of growing size on this ring, the smallest first, and checks every result: what a
/// network does, where nothing but this program is installed (rollcall-bench-collectives tells what the trainer's
/// backends do). Collective. Larger vectors are left out where the network is so slow that they would take seconds; all
/// members decide alike. `error` of the result: a neighbour was lost, or data was wrong.
[[nodiscard]] Benchmark run_benchmark(Ring& ring);

/// One benchmark from those of all members: the slowest member's time counts for every row.
[[nodiscard]] Benchmark combine(const std::vector<Benchmark>& members);

}  // namespace rollcall::doctor
