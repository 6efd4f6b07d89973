#include "runtime/doctor/wire/message.h"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>

namespace rollcall::rendezvous {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Endpoint, host, port)
}  // namespace rollcall::rendezvous

namespace rollcall::doctor {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Greeting, step, rank, probe)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Request, what, index, size, neighbours)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Measurement, operation, bytes, seconds, gigabytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Benchmark, ranks, error, rows)

namespace {

template <typename Message>
std::string dump(const Message& message) {
  return nlohmann::json(message).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <typename Message>
std::optional<Message> parse(std::string_view text) {
  try {
    return nlohmann::json::parse(text).get<Message>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string step_key(const job::JobFacts& facts) {
  return fmt::format("{}.{}.{}", facts.job_id.value_or(0), facts.step_id.value_or(0), facts.restart_count);
}

std::string to_text(const Greeting& greeting) { return dump(greeting); }
std::optional<Greeting> parse_greeting(std::string_view text) { return parse<Greeting>(text); }
std::string to_text(const Request& request) { return dump(request); }
std::optional<Request> parse_request(std::string_view text) { return parse<Request>(text); }
std::string to_text(const Benchmark& benchmark) { return dump(benchmark); }

Benchmark parse_benchmark(std::string_view text) {
  return parse<Benchmark>(text).value_or(Benchmark{0, "a rank's answer cannot be read", {}});
}

}  // namespace rollcall::doctor
