#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/doctor/job_context.h"
#include "runtime/rendezvous/endpoint.h"
#include "runtime/rendezvous/listener.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::doctor {

using rendezvous::Clock;
using rendezvous::Socket;

/// A member of a ring of `size` processes, which sends to its right and receives from its left neighbour.
class Ring {
 public:
  /// The sockets must outlive the ring. `index` < `size`, `size` > 1.
  Ring(const Socket& left, const Socket& right, std::uint32_t index, std::uint32_t size, Clock::time_point deadline)
      : left_(left), right_(right), index_(index), size_(size), deadline_(deadline) {}

  /// Sums in place with the ring algorithm (Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
  /// workstations", J. Parallel Distrib. Comput. 69, 2009). The length must be a multiple of size() and the same in all
  /// members. Collective. Errors (Unavailable): a neighbour is lost, or `deadline` has passed.
  [[nodiscard]] Result<void> all_reduce(std::span<float> data);

  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }

 private:
  /// Returns part i, counted around the ring: i may be negative or beyond size.
  [[nodiscard]] std::span<float> part(std::span<float> data, std::int64_t i) const;
  [[nodiscard]] Result<void> step(std::span<const float> outgoing, std::span<float> incoming);

  const Socket& left_;
  const Socket& right_;
  std::uint32_t index_;
  std::uint32_t size_;
  Clock::time_point deadline_;
};

/// This process's member of the benchmark's ring: a port for its left neighbour and a connection to its right one.
class RingMember {
 public:
  /// Listens on a port that the kernel chooses; neighbours must know the step's `secret`.
  explicit RingMember(const rendezvous::Secret& secret);

  /// Returns the port; 0: it could not listen.
  [[nodiscard]] std::uint16_t port() const { return listener_ ? listener_->port() : std::uint16_t{0}; }

  /// Connects to the right neighbour at the first endpoint that works. Returns "" or the error. Does not wait for the
  /// neighbour's program: its kernel accepts the connection, and it is authenticated when measuring begins.
  [[nodiscard]] std::string connect(const std::vector<rendezvous::Endpoint>& neighbours, Clock::time_point deadline);

  /// Accepts the left neighbour and runs the benchmark. Collective, after all members have connected.
  [[nodiscard]] Benchmark measure(std::uint32_t index, std::uint32_t size, Clock::time_point deadline);

 private:
  /// Accepts the left neighbour; both ends of each connection prove that they know the secret. The vectors are then
  /// sent unencrypted, since they are only measured and hold no information.
  [[nodiscard]] Result<Socket> accept_left(Clock::time_point deadline);

  rendezvous::Seal seal_;
  std::optional<rendezvous::Listener> listener_;
  Socket right_;
};

/// Times all-reduces of vectors of growing size on this ring, smallest first, and verifies every result. Measures the
/// network with this program alone (rollcall-bench-collectives measures the trainer's backends). Collective. Sizes that
/// would take seconds on a slow network are omitted, by all members alike. `error` of the result: a neighbour was lost,
/// or data was wrong.
[[nodiscard]] Benchmark run_benchmark(Ring& ring);

/// Combines the results of all members: for each row, the slowest member's time counts.
[[nodiscard]] Benchmark combine(const std::vector<Benchmark>& members);

}  // namespace rollcall::doctor
