#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rollcall::metrics {

/// An operation on one rank, timed by CLOCK_MONOTONIC of its host in nanoseconds. `name` is "<category>: <what>".
/// shares_of() uses the categories
/// - "step": a whole step,
/// - "compute": a part of the model or the optimizer,
/// - "collective": a collective that `thread` began,
/// - "wait": a thread that waits for a collective.
struct Span {
  std::string name;
  std::int64_t thread = 0;  ///< the kernel's thread id
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The parts of the time of a rank's steps, in seconds, without the time between steps.
struct TraceShares {
  double steps = 0;          ///< the whole time
  double compute = 0;        ///< at least one thread computes and does not wait
  double communication = 0;  ///< a collective of a training thread (not of a saving one) runs
  double exposed = 0;        ///< communication that does not overlap with computation
};

/// Computes the parts of the time of a rank's steps.
[[nodiscard]] TraceShares shares_of(const std::vector<Span>& spans);

/// A measurement of rank 0's clock, in nanoseconds.
struct ClockReading {
  std::int64_t sent = 0;      ///< when the question was sent, by this rank's clock
  std::int64_t answered = 0;  ///< when the answer arrived, by this rank's clock
  std::int64_t heard = 0;     ///< the answer: rank 0's clock
};

/// The difference between the clocks of rank 0 and this rank, in nanoseconds.
struct ClockOffset {
  std::int64_t offset = 0;  ///< to add to this rank's clock
  std::int64_t error = 0;   ///< the largest error of `offset`
};

/// Computes the offset from the reading with the shortest round trip, within which rank 0 answered (Cristian 1989,
/// "Probabilistic clock synchronization"). Needs at least one reading.
[[nodiscard]] ClockOffset clock_offset(const std::vector<ClockReading>& readings);

/// One rank in a trace.
struct TracedRank {
  std::uint32_t rank = 0;
  std::string host;
  std::int64_t clock_offset = 0;  ///< nanoseconds to add to its clock to get rank 0's
  std::vector<Span> spans;
};

/// Formats the events of one rank, comma-separated, for trace_file(): a process for the rank, a track for each of its
/// threads, and tracks for collectives, which may overlap. The format is Chrome's Trace Event Format (Google, 2016),
/// for https://ui.perfetto.dev and chrome://tracing. `thread_name` returns the name of a thread of this process.
[[nodiscard]] std::string trace_events(const TracedRank& traced, std::string (*thread_name)(std::int64_t thread));

/// Returns the whole file with the ranks' trace_events().
[[nodiscard]] std::string trace_file(const std::vector<std::string>& events_of_ranks);

}  // namespace rollcall::metrics
