#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/doctor/facts.h"
#include "runtime/doctor/job_context.h"
#include "runtime/job/job_facts.h"
#include "runtime/rendezvous/endpoint.h"

namespace rollcall::doctor {

/// The purpose of connections between ranks (rendezvous::Seal). Ranks of another step that share a port have another
/// secret.
inline constexpr const char* kDoctor = "doctor";

/// The role of a client that only checks whether this is rank 0's port (rendezvous::Hello).
inline constexpr const char* kProbe = "probe";

/// A request of rank 0 to another rank.
struct Request {
  enum class What {
    ReadClock,    ///< answer: the system time in nanoseconds since 1970
    Connect,      ///< connect to the right neighbour; answer: the error, or ""
    Measure,      ///< take part in the benchmark; answer: a Benchmark
    Collectives,  ///< run rollcall-bench-collectives after this exchange; answer: ""
    Leave,        ///< no answer: the report is complete
  };
  What what = What::Leave;
  std::uint32_t index = 0;                       ///< index in the ring
  std::uint32_t size = 0;                        ///< number of members of the ring
  std::vector<rendezvous::Endpoint> neighbours;  ///< Connect: the right neighbour's endpoints, best first
};

[[nodiscard]] std::string to_text(const Request& request);
/// Parses a request; unset where the text is not one, or asks for an impossible ring: fewer than two members, more than
/// the world's ranks, or an index beyond its end. The memory and time of measuring depend on these.
[[nodiscard]] std::optional<Request> parse_request(std::string_view text, std::uint32_t world_size);
[[nodiscard]] std::string to_text(const Benchmark& benchmark);
[[nodiscard]] Benchmark parse_benchmark(std::string_view text);

/// Returns the facts as compact JSON, which a rank sends to rank 0. Bytes that are not UTF-8 are replaced.
[[nodiscard]] std::string to_json_text(const TaskFacts& facts);

/// Parses the facts; unknown keys are ignored, missing ones keep the default. Errors (Mismatch): not such JSON.
[[nodiscard]] Result<TaskFacts> task_facts_from_json(std::string_view text);

/// Returns this node's system time in nanoseconds since 1970, for comparison between nodes.
[[nodiscard]] inline std::int64_t wall_clock_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace rollcall::doctor
