#include "runtime/elastic/messages.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runtime/base/untrusted_json.h"

namespace rollcall::elastic {
namespace {

using nlohmann::json;
constexpr std::uint32_t kMostWorkers = 1 << 16;  ///< limit of workers per node
constexpr std::uint32_t kMostGenerations = 1 << 30;
constexpr int kLastExitCode = 255;  ///< shells see 8 bits: 256 would look like success
constexpr int kLastSignal = 64;
constexpr std::size_t kLongestWorld = std::size_t{1} << 23;  ///< limit of its text in bytes: some 80,000 nodes
constexpr std::int64_t kLongestAge = std::int64_t{1'000'000'000} * 3600 * 24 * 366;  ///< nanoseconds

/// Encodes nodes without field names, since a world has thousands and all of them are sent to each node.
json to_json(const Node& node) { return json::array({node.host, node.address, node.workers, node.role, node.port}); }

/// Returns an integer of a message; an out-of-range one makes the message invalid.
template <typename Number>
Number number_in(const json& value, Number least = std::numeric_limits<Number>::min(),
                 Number most = std::numeric_limits<Number>::max()) {
  const auto number = value.is_number_integer() ? value.get<std::int64_t>() : -1;
  if (!value.is_number_integer() || number < std::int64_t{least} || number > std::int64_t{most}) {
    throw std::out_of_range("a number that no agent says");
  }
  return static_cast<Number>(number);
}

std::uint64_t beat_in(const json& from) {
  return static_cast<std::uint64_t>(number_in<std::int64_t>(from.at("beat"), 0));
}

/// Returns a text that becomes a variable of the workers' environment.
std::string variable_in(const json& value) {
  std::string text = value;
  if (text.find('\0') != std::string::npos) {
    throw std::out_of_range("a text that is no variable");
  }
  return text;
}

constexpr std::size_t kLongestHost = 255;  ///< limit in bytes, from RFC 1123

std::string name_in(const json& value) {
  std::string text = value;
  if (text.size() > kLongestHost) {
    throw std::out_of_range("no host has so long a name");
  }
  return text;
}

/// Returns an address or a host name without characters that are special to a shell.
std::string address_in(const json& value) {
  std::string text = name_in(value);
  const auto fits = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view(".:_%-").find(c) != std::string_view::npos;
  };
  if (!std::ranges::all_of(text, fits)) {
    throw std::out_of_range("a text that is no address");
  }
  return text;
}

Node node_of(const json& from) {
  return {name_in(from.at(0)), address_in(from.at(1)), number_in<std::uint32_t>(from.at(2), 1, kMostWorkers),
          from.at(3), number_in<std::uint16_t>(from.at(4))};
}

json to_json(const std::vector<Node>& nodes) {
  json all = json::array();
  for (const Node& node : nodes) {
    all.push_back(to_json(node));
  }
  return all;
}

std::vector<Node> nodes_of(const json& from) {
  std::vector<Node> nodes;
  for (const json& node : from) {
    nodes.push_back(node_of(node));
  }
  return nodes;
}

json to_json(const Generation& generation) {
  json unsettled = json::array();
  for (const Electorate& each : generation.unsettled) {
    unsettled.push_back({{"generation", each.generation}, {"nodes", to_json(each.nodes)}});
  }
  return {{"number", generation.number},
          {"nonce", generation.nonce},
          {"restarts", generation.restarts},
          {"group_rank", generation.group_rank},
          {"world", to_json(generation.world)},
          {"address", generation.address},
          {"port", generation.port},
          {"run", generation.run},
          {"coordinator", generation.coordinator},
          {"unsettled", std::move(unsettled)}};
}

Generation generation_of(const json& from) {
  Generation generation{number_in<std::uint32_t>(from.at("number"), 0, kMostGenerations),
                        from.at("nonce"),
                        number_in<std::uint32_t>(from.at("restarts")),
                        number_in<std::uint32_t>(from.at("group_rank")),
                        nodes_of(from.at("world")),
                        number_in<std::uint32_t>(from.at("coordinator")),
                        {},
                        address_in(from.at("address")),
                        number_in<std::uint16_t>(from.at("port")),
                        variable_in(from.at("run"))};
  if (!generation.world.empty() && generation.coordinator >= generation.world.size()) {
    throw std::out_of_range("coordinator");
  }
  for (const json& each : from.at("unsettled")) {
    generation.unsettled.push_back({number_in<std::uint32_t>(each.at("generation")), nodes_of(each.at("nodes"))});
  }
  return generation;
}

json to_json(const Cause& cause) {
  return {{"kind", static_cast<int>(cause.kind)},
          {"host", cause.host},
          {"group_rank", cause.group_rank},
          {"rank", cause.rank},
          {"local_rank", cause.local_rank},
          {"pid", cause.pid},
          {"exit_code", cause.exit_code},
          {"signal", cause.signal},
          {"message", cause.message},
          {"error_file", cause.error_file},
          {"age", cause.age_nanoseconds}};
}

Cause cause_of(const json& from) {
  const int kind = number_in<int>(from.at("kind"));
  return {kind >= 0 && kind <= static_cast<int>(Cause::Kind::NodeLeft) ? static_cast<Cause::Kind>(kind)
                                                                       : Cause::Kind::Failed,
          from.at("host"),
          number_in<std::uint32_t>(from.at("group_rank")),
          number_in<std::uint32_t>(from.at("rank")),
          number_in<std::uint32_t>(from.at("local_rank")),
          number_in<std::int64_t>(from.at("pid")),
          number_in(from.at("exit_code"), 0, kLastExitCode),
          number_in(from.at("signal"), 0, kLastSignal),
          from.at("message"),
          from.at("error_file"),
          std::clamp<std::int64_t>(number_in<std::int64_t>(from.at("age")), 0, kLongestAge)};
}

json to_json(const JoinRequest& join_request) {
  json text{{"run_id", join_request.run_id},
            {"min_nodes", join_request.min_nodes},
            {"max_nodes", join_request.max_nodes},
            {"node", to_json(join_request.node)}};
  if (join_request.node_rank) {
    text["node_rank"] = *join_request.node_rank;
  }
  text["heartbeat_timeout"] = join_request.heartbeat_timeout.count();
  if (join_request.last) {
    text["last"] = to_json(*join_request.last);
  }
  return text;
}

JoinRequest join_request_of(const json& from) {
  JoinRequest join_request{from.at("run_id"), number_in<std::uint32_t>(from.at("min_nodes")),
                           number_in<std::uint32_t>(from.at("max_nodes")), std::nullopt, node_of(from.at("node"))};
  if (from.contains("node_rank")) {
    join_request.node_rank = number_in<std::uint32_t>(from.at("node_rank"));
  }
  join_request.heartbeat_timeout = std::chrono::milliseconds(number_in<std::uint32_t>(from.at("heartbeat_timeout")));
  if (from.contains("last")) {
    join_request.last = generation_of(from.at("last"));
  }
  return join_request;
}

std::string dump(const json& text) { return text.dump(-1, ' ', false, json::error_handler_t::replace); }

/// Compresses a text to a fifth or less; each of thousands of nodes is sent all of them.
std::string deflated(const std::string& text) {
  uLongf size = compressBound(text.size());
  std::string packed(size, '\0');
  if (compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
               text.size()) != Z_OK) {
    throw std::bad_alloc();  // the bound suffices, so only memory can be short
  }
  packed.resize(size);
  return packed;
}

/// Decompresses a text of at most kLongestWorld bytes; empty where it is invalid.
std::string inflated(std::string_view packed) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) {
    return "";
  }
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));  // zlib 1.2 lacks const
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  std::array<char, std::size_t{1} << 16> piece{};
  int outcome = Z_OK;
  while (outcome == Z_OK && text.size() <= kLongestWorld) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    outcome = inflate(&stream, Z_NO_FLUSH);
    text.append(piece.data(), piece.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  return outcome == Z_STREAM_END && text.size() <= kLongestWorld ? text : "";
}

/// Returns what `read` parses; unset where a field is missing or has another type.
template <typename Read>
auto parsed(std::string_view text, Read read) -> std::optional<decltype(read(json()))> {
  const std::optional<json> from = parse_untrusted(text);
  if (!from) {
    return std::nullopt;
  }
  try {
    return read(*from);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string to_text(const Report& report) {
  json text{{"report", static_cast<int>(report.kind)}, {"generation", report.generation}, {"beat", report.beat}};
  if (report.kind == Report::Kind::Alive) {
    return dump(text);
  }
  text["port"] = report.port;
  text["causes"] = json::array();
  for (const Cause& cause : report.causes) {
    text["causes"].push_back(to_json(cause));
  }
  if (report.join_request) {
    text["newcomer"] = to_json(*report.join_request);
  }
  return dump(text);
}

std::string to_text(const Order& order) {
  json text{{"order", static_cast<int>(order.kind)}, {"beat", order.beat}, {"settled", order.settled}};
  if (order.kind == Order::Kind::Alive) {
    return dump(text);
  }
  text["generation"] = to_json(order.generation);
  text["reason"] = order.reason;
  text["lost"] = order.lost;
  text["exit_code"] = order.outcome.exit_code;
  text["outcome"] = order.outcome.reason;
  if (order.outcome.cause) {
    text["cause"] = to_json(*order.outcome.cause);
  }
  return order.kind == Order::Kind::World ? deflated(dump(text)) : dump(text);
}

std::optional<Report> parse_report(std::string_view text) {
  return parsed(text, [](const json& from) {
    Report report;
    const int kind = number_in<int>(from.at("report"));
    report.kind = kind >= 0 && kind <= static_cast<int>(Report::Kind::Alive) ? static_cast<Report::Kind>(kind)
                                                                             : Report::Kind::Alive;
    report.generation = number_in<std::uint32_t>(from.at("generation"));
    report.beat = beat_in(from);
    if (report.kind == Report::Kind::Alive) {
      return report;
    }
    report.port = number_in<std::uint16_t>(from.at("port"));
    for (const json& cause : from.at("causes")) {
      report.causes.push_back(cause_of(cause));
    }
    if (from.contains("newcomer")) {
      report.join_request = join_request_of(from.at("newcomer"));
    }
    return report;
  });
}

std::optional<Order> parse_order(std::string_view text) {
  const bool is_text = text.starts_with('{');
  return parsed(is_text ? text : inflated(text), [](const json& from) {
    Order order;
    const int kind = number_in<int>(from.at("order"));
    order.kind =
        kind >= 0 && kind <= static_cast<int>(Order::Kind::Alive) ? static_cast<Order::Kind>(kind) : Order::Kind::Alive;
    order.beat = beat_in(from);
    order.settled = number_in<std::uint32_t>(from.at("settled"));
    if (order.kind == Order::Kind::Alive) {
      return order;
    }
    order.generation = generation_of(from.at("generation"));
    order.reason = from.at("reason");
    order.lost = from.value("lost", false);
    order.outcome = {number_in(from.at("exit_code"), 0, kLastExitCode), std::nullopt, from.at("outcome")};
    if (from.contains("cause")) {
      order.outcome.cause = cause_of(from.at("cause"));
    }
    return order;
  });
}

}  // namespace rollcall::elastic
