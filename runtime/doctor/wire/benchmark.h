#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/doctor/wire/ring.h"
#include "runtime/doctor/world.h"
#include "runtime/rendezvous/endpoint.h"
#include "runtime/rendezvous/listener.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::doctor {

using rendezvous::Clock;
using rendezvous::Socket;

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

/// Times all-reduce, all-gather, reduce-scatter and broadcast of vectors of growing size on this ring, and checks every
/// result against what the operation must give. Collective. Larger vectors are left out where the network is so slow
/// that they would take seconds; all members decide alike. `error` of the result: a neighbour was lost, or data was
/// wrong.
[[nodiscard]] Benchmark run_benchmark(Ring& ring);

/// One benchmark from those of all members: the slowest member's time counts for every row.
[[nodiscard]] Benchmark combine(const std::vector<Benchmark>& members);

}  // namespace rollcall::doctor
