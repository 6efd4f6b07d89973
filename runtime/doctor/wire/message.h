#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/doctor/facts.h"
#include "runtime/doctor/world.h"
#include "runtime/job/job_facts.h"
#include "runtime/rendezvous/endpoint.h"

namespace rollcall::doctor {

/// What a connection between ranks is for (rendezvous::Seal): ranks of another step that share a port do not have its
/// secret.
inline constexpr const char* kDoctor = "doctor";

/// The role of who only asks whether this is rank 0's port (rendezvous::Hello).
inline constexpr const char* kProbe = "probe";

/// What rank 0 asks of another rank.
struct Request {
  enum class What {
    ReadClock,    ///< answer: the wall clock, nanoseconds since 1970
    Connect,      ///< connect to the right neighbour; answer: what went wrong, or ""
    Measure,      ///< take part in the benchmark; answer: a Benchmark
    Collectives,  ///< run rollcall-bench-collectives once this exchange is over; answer: ""
    Leave,        ///< no answer: the report is complete
  };
  What what = What::Leave;
  std::uint32_t index = 0;                       ///< place in the ring
  std::uint32_t size = 0;                        ///< members of the ring
  std::vector<rendezvous::Endpoint> neighbours;  ///< Connect: the right neighbour's endpoints, best first
};

[[nodiscard]] std::string to_text(const Request& request);
/// Nothing where the text is none, or asks to measure with a ring that cannot be: one of fewer than two members or of
/// more than the world has ranks, a place beyond its end. All memory and time that measuring takes depends on it.
[[nodiscard]] std::optional<Request> parse_request(std::string_view text, std::uint32_t world_size);
[[nodiscard]] std::string to_text(const Benchmark& benchmark);
[[nodiscard]] Benchmark parse_benchmark(std::string_view text);

/// The facts as compact JSON: what travels from a rank to rank 0. Bytes that are no UTF-8 are replaced.
[[nodiscard]] std::string to_json_text(const TaskFacts& facts);

/// The reverse; unknown keys are passed over, missing ones leave the default. Errors (Mismatch): not such JSON.
[[nodiscard]] Result<TaskFacts> task_facts_from_json(std::string_view text);

/// Nanoseconds since 1970 by this node's clock: what is compared between nodes.
[[nodiscard]] inline std::int64_t wall_clock_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace rollcall::doctor
