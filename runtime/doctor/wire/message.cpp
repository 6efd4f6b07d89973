#include "runtime/doctor/wire/message.h"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/base/untrusted_json.h"

namespace rollcall::rendezvous {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Endpoint, host, port)
}  // namespace rollcall::rendezvous

namespace rollcall::doctor {

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
  const std::optional<nlohmann::json> json = parse_untrusted(text);
  try {
    return json ? std::optional(json->get<Message>()) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string to_json_text(const TaskFacts& facts) {
  return nlohmann::json(facts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<TaskFacts> task_facts_from_json(std::string_view text) {
  std::string reason = "it is not a report";
  try {
    if (const std::optional<nlohmann::json> json = parse_untrusted(text)) {
      return json->get<TaskFacts>();
    }
  } catch (const std::exception& error) {
    reason = error.what();
  }
  return fail("doctor", "", "a rank's report cannot be read: " + reason,
              "installing the same version of rollcall on all nodes", ErrorKind::Mismatch);
}

std::string to_text(const Request& request) { return dump(request); }

std::optional<Request> parse_request(std::string_view text, std::uint32_t world_size) {
  const std::optional<Request> request = parse<Request>(text);
  const bool known = request && request->what >= Request::What::ReadClock && request->what <= Request::What::Leave;
  const bool measures = known && request->what == Request::What::Measure;
  const bool possible =
      known && (!measures || (request->size >= 2 && request->size <= world_size && request->index < request->size));
  return possible ? request : std::nullopt;
}

std::string to_text(const Benchmark& benchmark) { return dump(benchmark); }

Benchmark parse_benchmark(std::string_view text) {
  return parse<Benchmark>(text).value_or(Benchmark{0, "a rank's answer cannot be read", {}});
}

}  // namespace rollcall::doctor
