#include "runtime/doctor/wire/benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/rendezvous/event_loop.h"
#include "runtime/rendezvous/pending_connections.h"

namespace rollcall::doctor {
namespace {

struct Size {
  std::size_t floats;
  int repetitions;
};
constexpr std::array kSizes{Size{64, 9}, Size{std::size_t{1} << 16, 5}, Size{std::size_t{1} << 21, 3}};
/// A size is omitted where the previous one took longer than this in total.
constexpr double kLongestSeconds = 0.4;

/// Fills the data with whole numbers, so that sums in float32 are exact (below 2^24) for up to 100,000 members.
void fill(const Ring& ring, std::span<float> data) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<float>(ring.index() % 64 + i % 61);
  }
}

bool is_right(const Ring& ring, std::span<const float> data) {
  std::uint64_t sum_of_members = 0;
  for (std::uint32_t member = 0; member < ring.size(); ++member) {
    sum_of_members += member % 64;
  }
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (data[i] != static_cast<float>(sum_of_members + std::uint64_t{ring.size()} * (i % 61))) {
      return false;
    }
  }
  return true;
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Returns the sum over all members, bitwise equal on each, so that their decisions agree.
Result<double> total(Ring& ring, double own) {
  std::vector<float> values(ring.size(), static_cast<float>(own));
  const Result<void> summed = ring.all_reduce(values);
  return summed ? Result<double>(values.front()) : Result<double>(summed.error());
}

/// Measures one size and appends its row. Returns "" or the error.
std::string measure(Ring& ring, const Size& size, Benchmark& benchmark) {
  // Rounded up to a multiple of the members, as the algorithm requires.
  std::vector<float> data((size.floats + ring.size() - 1) / ring.size() * ring.size());
  std::vector<double> times;
  for (int repetition = 0; repetition < size.repetitions; ++repetition) {
    fill(ring, data);
    if (const Result<double> barrier = total(ring, 0); !barrier) {
      return barrier.error().reason;
    }
    const Clock::time_point start = Clock::now();
    if (const Result<void> done = ring.all_reduce(data); !done) {
      return done.error().reason;
    }
    times.push_back(seconds_since(start));
    if (!is_right(ring, data)) {
      return "all-reduce gave wrong data: the network or a node corrupts data";
    }
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  benchmark.rows.push_back({"all-reduce", data.size() * sizeof(float), times[times.size() / 2], 0});
  return "";
}

}  // namespace

std::span<float> Ring::part(std::span<float> data, std::int64_t i) const {
  const std::int64_t size = size_;
  const std::size_t length = data.size() / size_;
  return data.subspan(static_cast<std::size_t>((i % size + size) % size) * length, length);
}

Result<void> Ring::step(std::span<const float> outgoing, std::span<float> incoming) {
  return transfer(right_, std::as_bytes(outgoing), left_, std::as_writable_bytes(incoming), deadline_);
}

Result<void> Ring::all_reduce(std::span<float> data) {
  std::vector<float> arrived(data.size() / size_);
  // Part i starts at member i + 1 and goes around once, so that it is complete at member i; then once more, to all.
  for (std::int64_t hop = 1; hop < size_; ++hop) {
    RETURN_IF_ERROR(step(part(data, index_ - hop), arrived));
    const std::span<float> sum = part(data, index_ - hop - 1);
    std::ranges::transform(sum, arrived, sum.begin(), [](float a, float b) { return a + b; });
  }
  for (std::int64_t hop = 0; hop < size_ - 1; ++hop) {
    RETURN_IF_ERROR(step(part(data, index_ - hop), part(data, index_ - hop - 1)));
  }
  return {};
}

Benchmark run_benchmark(Ring& ring) {
  Benchmark benchmark;
  benchmark.ranks = ring.size();
  for (const Size& size : kSizes) {
    const Clock::time_point start = Clock::now();
    benchmark.error = measure(ring, size, benchmark);
    if (!benchmark.error.empty()) {
      return benchmark;
    }
    const Result<double> everybodys = total(ring, seconds_since(start));
    if (!everybodys || *everybodys / ring.size() > kLongestSeconds) {
      benchmark.error = everybodys ? "" : everybodys.error().reason;
      return benchmark;
    }
  }
  return benchmark;
}

Benchmark combine(const std::vector<Benchmark>& members) {
  Benchmark all = members.front();
  for (const Benchmark& member : members) {
    if (!member.error.empty()) {
      return {member.ranks, member.error, {}};
    }
    for (std::size_t row = 0; row < std::min(all.rows.size(), member.rows.size()); ++row) {
      all.rows[row].seconds = std::max(all.rows[row].seconds, member.rows[row].seconds);
    }
  }
  // How much of the vector each link carries (the "bus bandwidth" of NVIDIA's nccl-tests, doc/PERFORMANCE.md).
  const double link_share = 2.0 * (all.ranks - 1.0) / all.ranks;
  for (Measurement& row : all.rows) {
    row.gigabytes = link_share * static_cast<double>(row.bytes) / row.seconds / 1e9;
  }
  return all;
}

RingMember::RingMember(const rendezvous::Secret& secret) : seal_{secret, "ring"} {
  if (Result<rendezvous::Listener> listener = rendezvous::Listener::on_all_addresses(0)) {
    listener_ = std::move(*listener);
  }
}

std::string RingMember::connect(const std::vector<rendezvous::Endpoint>& neighbours, Clock::time_point deadline) {
  std::string reason = "the neighbour does not listen";
  auto left = static_cast<int>(neighbours.size());
  for (const rendezvous::Endpoint& neighbour : neighbours) {
    const rendezvous::Attempt attempt =
        rendezvous::connect_once(neighbour, Clock::now() + (deadline - Clock::now()) / left--);
    if (attempt.descriptor < 0) {
      reason = fmt::format("{}: {}", neighbour.host, attempt.reason);
      continue;
    }
    right_ = Socket(attempt.descriptor, rendezvous::End::Client, seal_);
    right_.frames().queue(to_text(rendezvous::Hello{}));
    if (right_.flush()) {
      return "";
    }
    reason = fmt::format("{}: the peer closed the connection", neighbour.host);
  }
  return reason;
}

Result<Socket> RingMember::accept_left(Clock::time_point deadline) {
  const auto lost = [](const std::string& reason) {
    return fail("doctor", "", reason, "checking the other node", ErrorKind::Unavailable);
  };
  rendezvous::EventLoop loop;
  Socket left;
  std::string last_rejected;
  rendezvous::PendingConnections pending(
      loop, seal_, 0,
      [&](Socket connection, const rendezvous::Hello&) {
        if (!left.is_open() && connection.send_frame(rendezvous::welcome(""), Clock::now())) {
          left = std::move(connection);
        }
      },
      [&](const rendezvous::RejectedPeer& stranger) { last_rejected = to_text(stranger); });
  pending.listen(listener_->descriptor());
  std::optional<std::string> answer;
  std::string problem;
  loop.watch(right_.descriptor(), [&] {
    rendezvous::FrameBuffer& frames = right_.frames();
    const bool open = right_.take_arrived(
        frames.most(rendezvous::kLongestHello));  // it sends only its answer: data goes the other way
    answer = frames.next();
    if (!answer && (!open || frames.broken(rendezvous::kLongestHello))) {
      problem =
          open ? "the right neighbour does not know this step's secret" : "the right neighbour closed the connection";
    }
    if (answer || !problem.empty()) {
      loop.forget(right_.descriptor());
    }
  });
  while (problem.empty() && (!left.is_open() || !answer)) {
    if (Clock::now() >= deadline) {
      return lost(last_rejected.empty() ? "no answer in time" : "no answer in time, except from " + last_rejected);
    }
    loop.wait(deadline);
    pending.tick(Clock::now());
    problem = problem.empty() ? pending.problem() : problem;
  }
  return problem.empty() ? Result<Socket>(std::move(left)) : lost(problem);
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
