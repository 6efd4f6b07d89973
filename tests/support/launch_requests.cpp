// Reads command lines of `rollcall run` from standard input, one JSON object a line ({"arguments": [...],
// "environment":
// {...}}), and prints for each what it means, or why it is refused. tests/runtime/elastic/test_run_command_lines.py
// compares that with torchrun's own.

#include <cstdint>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/elastic/launch_request.h"
#include "runtime/elastic/options.h"

namespace {

using nlohmann::json;
using rollcall::elastic::LaunchRequest;
using rollcall::elastic::StreamChoice;

json streams(const StreamChoice& choice) {
  json numbers = json::array();
  for (std::uint32_t rank = 0; rank < 10; ++rank) {
    numbers.push_back((choice.of(rank).out ? 1 : 0) + (choice.of(rank).err ? 2 : 0));
  }
  return numbers;
}

json shown(const LaunchRequest& request) {
  const rollcall::elastic::MeetingRequest& meeting = request.meeting;
  json warned = json::array();
  for (const rollcall::Error& warning : meeting.warnings) {
    warned.push_back(warning.value);
  }
  return {
      {"nodes", json::array({request.min_nodes, request.max_nodes})},
      {"workers", request.workers},
      {"alone", meeting.alone},
      {"endpoint", json::array({meeting.endpoint.host, meeting.endpoint.port})},
      {"node_rank", meeting.node_rank ? json(*meeting.node_rank) : json()},
      {"host", meeting.host ? json(*meeting.host) : json()},
      {"run_id", meeting.run_id},
      {"local_address", meeting.local_address},
      {"join_timeout", meeting.join_timeout.count()},
      {"last_call_timeout", meeting.last_call_timeout.count()},
      {"heartbeat_timeout", meeting.heartbeat_timeout.count()},
      {"warned", warned},
      {"role", request.role},
      {"max_restarts", request.max_restarts},
      {"shutdown_timeout", request.shutdown_timeout.count()},
      {"program", request.program},
      {"log_dir", request.logs.folder},
      {"redirects", streams(request.logs.redirects)},
      {"tee", streams(request.logs.tee)},
      {"line_prefix", request.logs.line_prefix},
      {"shown", request.logs.shown},
      {"filters", json::array({request.logs.out_filters, request.logs.err_filters})},
      {"signals", request.signals},
      {"virtual_local_rank", request.virtual_local_rank},
  };
}

json meaning(const std::string& line) {
  const json asked = json::parse(line);
  const rollcall::Environment environment(
      asked.at("environment").get<std::map<std::string, std::string, std::less<>>>());
  const auto arguments = asked.at("arguments").get<std::vector<std::string>>();
  const auto options = rollcall::elastic::parse_run_options(arguments, environment);
  if (!options) {
    return {{"refused", options.error().message()}};
  }
  if (options->help_topic) {
    return {{"help", true}};
  }
  const auto request = rollcall::elastic::launch_request(*options, environment, {.cpus = 1, .new_run_id = "new"});
  return request ? shown(*request) : json{{"refused", request.error().message()}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << meaning(line).dump() << "\n";
  }
}
