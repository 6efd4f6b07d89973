#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rollcall::metrics {

/// Something that took time on one rank: nanoseconds of CLOCK_MONOTONIC of its host. `name` is "<category>: <what>";
/// the categories that count in shares_of() are
/// - "step": a whole step,
/// - "compute": a part of the model or the optimizer at work,
/// - "collective": one under way, which `thread` began,
/// - "wait": a thread that waits for one.
struct Span {
  std::string name;
  std::int64_t thread = 0;  ///< the kernel's number
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// What the time of a rank's steps went to, in seconds; what lies between steps does not count.
struct TraceShares {
  double steps = 0;          ///< all of it
  double compute = 0;        ///< at least one thread computed and did not wait meanwhile
  double communication = 0;  ///< a collective was under way that a thread of the steps began, not one that saves
  double exposed = 0;        ///< and nothing was computed meanwhile: communication that is not hidden
};

[[nodiscard]] TraceShares shares_of(const std::vector<Span>& spans);

/// A question to rank 0 about its clock: nanoseconds, when it was sent and when the answer came on this rank's clock,
/// and what the answer was.
struct ClockReading {
  std::int64_t sent = 0;
  std::int64_t answered = 0;
  std::int64_t heard = 0;
};

/// What to add to this rank's clock to get rank 0's, and how far that is off at most: nanoseconds.
struct ClockOffset {
  std::int64_t offset = 0;
  std::int64_t error = 0;
};

/// By the shortest round trip: the answer was given somewhere within it (Cristian 1989, "Probabilistic clock
/// synchronization"). At least one reading.
[[nodiscard]] ClockOffset clock_offset(const std::vector<ClockReading>& readings);

/// One rank in a trace.
struct TracedRank {
  std::uint32_t rank = 0;
  std::string host;
  std::int64_t clock_offset = 0;  ///< nanoseconds to add to its clock to get rank 0's
  std::vector<Span> spans;
};

/// The events of one rank, comma-separated, as a file of trace_file() has them: a process for the rank, a track for
/// each of its threads, and collectives beside them, which may overlap. In Chrome's Trace Event Format (Google, 2016),
/// which https://ui.perfetto.dev and chrome://tracing open. `thread_name` names a thread of this process.
[[nodiscard]] std::string trace_events(const TracedRank& traced, std::string (*thread_name)(std::int64_t thread));

/// The whole file of the ranks' trace_events().
[[nodiscard]] std::string trace_file(const std::vector<std::string>& events_of_ranks);

}  // namespace rollcall::metrics
