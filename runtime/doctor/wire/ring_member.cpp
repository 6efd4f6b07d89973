#include "runtime/doctor/wire/ring_member.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <span>
#include <utility>

#include "runtime/doctor/wire/benchmark.h"

namespace rollcall::doctor {
namespace {

/// Of fixed length, so that its reader takes none of the data that may follow at once.
std::string token_of(const std::string& step) { return fmt::format("rollcall-doctor {:<48.48}", step); }

}  // namespace

RingMember::RingMember(const std::string& step) : token_(token_of(step)) {
  if (Result<rendezvous::Listener> listener = rendezvous::Listener::on_all_addresses(0)) {
    listener_ = std::move(*listener);
    fcntl(listener_->descriptor(), F_SETFL, fcntl(listener_->descriptor(), F_GETFL) | O_NONBLOCK);
  }
}

std::string RingMember::connect(const std::vector<rendezvous::Endpoint>& neighbours, Clock::time_point deadline) {
  std::string reason = "it does not listen";
  auto left = static_cast<int>(neighbours.size());
  for (const rendezvous::Endpoint& neighbour : neighbours) {
    const rendezvous::Attempt attempt =
        rendezvous::connect_once(neighbour, Clock::now() + (deadline - Clock::now()) / left--);
    if (attempt.descriptor < 0) {
      reason = fmt::format("{}: {}", neighbour.host, attempt.reason);
      continue;
    }
    right_ = Socket(attempt.descriptor);
    const Result<void> sent = transfer(right_, std::as_bytes(std::span(token_)), right_, {}, deadline);
    if (sent) {
      return "";
    }
    reason = fmt::format("{}: {}", neighbour.host, sent.error().reason);
  }
  return reason;
}

Result<Socket> RingMember::accept_left(Clock::time_point deadline) const {
  while (true) {
    Result<Socket> left = accept_one(listener_->descriptor(), deadline);
    if (!left) {
      return left;
    }
    std::string token(token_.size(), ' ');
    const Result<void> read = transfer(*left, {}, *left, std::as_writable_bytes(std::span(token)), deadline);
    if (read && token == token_) {
      return left;
    }
    if (Clock::now() >= deadline) {
      return fail("doctor", "", "no answer in time", "looking at the other node", ExitCode::Unavailable);
    }
  }
}

Benchmark RingMember::measure(std::uint32_t index, std::uint32_t size, Clock::time_point deadline) {
  const Result<Socket> left = accept_left(deadline);
  if (!left) {
    return {size, left.error().reason, {}};
  }
  Ring ring(*left, right_, index, size, deadline);
  return run_benchmark(ring);
}

}  // namespace rollcall::doctor
