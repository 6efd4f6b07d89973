#include "runtime/doctor/wire/benchmark.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/rendezvous/newcomers.h"

namespace rollcall::doctor {
namespace {

/// Whole numbers, so that sums in float32 are exact (below 2^24) up to 100,000 members.
float pattern(std::uint32_t member, std::size_t i) { return static_cast<float>(member % 64 + i % 61); }

/// What the right value of an element depends on.
struct Place {
  std::size_t i;
  std::uint32_t part;
  std::uint32_t members;
  std::uint64_t sum_of_members;  ///< of member % 64 over all members
};

struct Operation {
  const char* name;
  Result<void> (Ring::*run)(std::span<float>);
  /// How much of the vector each link carries (the "bus bandwidth" of NVIDIA's nccl-tests, doc/PERFORMANCE.md).
  double (*link_share)(double members);
  float (*expected)(const Place& place);
  bool own_part_only;  ///< only the member's own part is defined afterwards
};

float sum_of_all(const Place& place) {
  return static_cast<float>(place.sum_of_members + std::uint64_t{place.members} * (place.i % 61));
}
float of_its_owner(const Place& place) { return pattern(place.part, place.i); }
float of_the_first(const Place& place) { return pattern(0, place.i); }

constexpr std::array kOperations{
    Operation{"all-reduce", &Ring::all_reduce, [](double n) { return 2 * (n - 1) / n; }, sum_of_all, false},
    Operation{"all-gather", &Ring::all_gather, [](double n) { return (n - 1) / n; }, of_its_owner, false},
    Operation{"reduce-scatter", &Ring::reduce_scatter, [](double n) { return (n - 1) / n; }, sum_of_all, true},
    Operation{"broadcast", &Ring::broadcast, [](double) { return 1.0; }, of_the_first, false},
};

struct Size {
  std::size_t floats;
  int repetitions;
};
constexpr std::array kSizes{Size{64, 9}, Size{std::size_t{1} << 16, 5}, Size{std::size_t{1} << 21, 3}};
/// A size is left out where the one before took longer than this in all.
constexpr double kLongestSeconds = 0.4;

void fill(const Ring& ring, std::span<float> data) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = pattern(ring.index(), i);
  }
}

bool is_right(const Ring& ring, const Operation& operation, std::span<const float> data) {
  Place place{0, 0, ring.size(), 0};
  for (std::uint32_t member = 0; member < ring.size(); ++member) {
    place.sum_of_members += member % 64;
  }
  const std::size_t part_length = data.size() / std::max(1U, ring.size());
  for (; place.part < ring.size(); ++place.part) {
    if (operation.own_part_only && place.part != ring.index()) {
      continue;
    }
    for (place.i = place.part * part_length; place.i < (place.part + 1) * part_length; ++place.i) {
      if (data[place.i] != operation.expected(place)) {
        return false;
      }
    }
  }
  return true;
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The sum over all members, the same bits at each: what they decide by.
Result<double> total(Ring& ring, double own) {
  std::vector<float> values(ring.size(), static_cast<float>(own));
  const Result<void> summed = ring.all_reduce(values);
  return summed ? Result<double>(values.front()) : Result<double>(summed.error());
}

/// Appends one row; "" or what went wrong.
std::string measure(Ring& ring, const Operation& operation, const Size& size, Benchmark& benchmark) {
  // Rounded up to a multiple of the members, as the algorithms need it.
  std::vector<float> data((size.floats + ring.size() - 1) / ring.size() * ring.size());
  std::vector<double> times;
  for (int repetition = 0; repetition < size.repetitions; ++repetition) {
    fill(ring, data);
    if (const Result<double> barrier = total(ring, 0); !barrier) {
      return barrier.error().reason;
    }
    const Clock::time_point start = Clock::now();
    if (const Result<void> done = (ring.*operation.run)(data); !done) {
      return done.error().reason;
    }
    times.push_back(seconds_since(start));
    if (!is_right(ring, operation, data)) {
      return std::string(operation.name) + " gave wrong data: the network or a node corrupts it";
    }
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  benchmark.rows.push_back({operation.name, data.size() * sizeof(float), times[times.size() / 2], 0});
  return "";
}

/// What neighbours say to each other. Nothing else is read with it: data may follow at once.
constexpr std::string_view kHere = "here";

}  // namespace

Benchmark run_benchmark(Ring& ring) {
  Benchmark benchmark;
  benchmark.ranks = ring.size();
  for (const Size& size : kSizes) {
    const Clock::time_point start = Clock::now();
    for (const Operation& operation : kOperations) {
      benchmark.error = measure(ring, operation, size, benchmark);
      if (!benchmark.error.empty()) {
        return benchmark;
      }
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
  for (Measurement& row : all.rows) {
    const auto operation = std::ranges::find(kOperations, row.operation, &Operation::name);
    const double share = operation == kOperations.end() ? 0 : operation->link_share(all.ranks);
    row.gigabytes = share * static_cast<double>(row.bytes) / row.seconds / 1e9;
  }
  return all;
}

RingMember::RingMember(const rendezvous::Secret& secret) : seal_{secret, "ring"} {
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
    right_ = Socket(attempt.descriptor, rendezvous::End::Client, seal_);
    right_.frames().say(kHere);
    if (right_.flush()) {
      return "";
    }
    reason = fmt::format("{}: the other end closed the connection", neighbour.host);
  }
  return reason;
}

Result<Socket> RingMember::accept_left(Clock::time_point deadline) {
  const auto lost = [](const std::string& reason) {
    return fail("doctor", "", reason, "looking at the other node", ErrorKind::Unavailable);
  };
  rendezvous::Newcomers newcomers(seal_, kHere.size(), 0);
  Socket left;
  bool right_is_known = false;
  while (!left.is_open() || !right_is_known) {
    std::vector<pollfd> waiting{{listener_->descriptor(), POLLIN, 0},
                                {right_is_known ? -1 : right_.descriptor(), POLLIN, 0}};
    newcomers.add_to(waiting);
    if (poll(waiting.data(), waiting.size(), rendezvous::milliseconds_until(deadline)) == 0) {
      return lost(newcomers.sent_away().empty() ? "no answer in time"
                                                : "no answer in time, but from " + newcomers.sent_away());
    }
    const std::string problem = newcomers.turn(listener_->descriptor(), [&](Socket newcomer, const std::string& text) {
      if (text == kHere && !left.is_open() && newcomer.send_frame(kHere, Clock::now())) {
        left = std::move(newcomer);
      }
    });
    if (!right_is_known && !right_.take_arrived(right_.frames().most(kHere.size()))) {
      return lost("the right neighbour closed the connection");
    }
    right_is_known |= right_.frames().next().has_value();
    if (!problem.empty() || right_.frames().broken()) {
      return lost(problem.empty() ? "the right neighbour does not know this step's secret" : problem);
    }
  }
  return left;
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
