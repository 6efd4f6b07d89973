#include "runtime/elastic/messages.h"

#include <exception>
#include <nlohmann/json.hpp>

namespace rollcall::elastic {
namespace {

using nlohmann::json;

json to_json(const Node& node) {
  return {{"host", node.host}, {"address", node.address}, {"workers", node.workers}, {"role", node.role}};
}

Node node_of(const json& from) { return {from.at("host"), from.at("address"), from.at("workers"), from.at("role")}; }

json to_json(const Generation& generation) {
  json world = json::array();
  for (const Node& node : generation.world) {
    world.push_back(to_json(node));
  }
  return {{"number", generation.number},     {"nonce", generation.nonce},
          {"restarts", generation.restarts}, {"group_rank", generation.group_rank},
          {"world", std::move(world)},       {"address", generation.address},
          {"port", generation.port}};
}

Generation generation_of(const json& from) {
  Generation generation{from.at("number"),  from.at("nonce"), from.at("restarts"), from.at("group_rank"), {},
                        from.at("address"), from.at("port")};
  for (const json& node : from.at("world")) {
    generation.world.push_back(node_of(node));
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
  const int kind = from.at("kind");
  return {kind >= 0 && kind <= static_cast<int>(Cause::Kind::NodeLeft) ? static_cast<Cause::Kind>(kind)
                                                                       : Cause::Kind::Failed,
          from.at("host"),
          from.at("group_rank"),
          from.at("rank"),
          from.at("local_rank"),
          from.at("pid"),
          from.at("exit_code"),
          from.at("signal"),
          from.at("message"),
          from.at("error_file"),
          from.at("age")};
}

json to_json(const Newcomer& newcomer) {
  json text{{"run_id", newcomer.run_id},
            {"min_nodes", newcomer.min_nodes},
            {"max_nodes", newcomer.max_nodes},
            {"node", to_json(newcomer.node)}};
  if (newcomer.node_rank) {
    text["node_rank"] = *newcomer.node_rank;
  }
  return text;
}

Newcomer newcomer_of(const json& from) {
  Newcomer newcomer{from.at("run_id"), from.at("min_nodes"), from.at("max_nodes"), std::nullopt,
                    node_of(from.at("node"))};
  if (from.contains("node_rank")) {
    newcomer.node_rank = from.at("node_rank").get<std::uint32_t>();
  }
  return newcomer;
}

std::string dump(const json& text) { return text.dump(-1, ' ', false, json::error_handler_t::replace); }

/// What `read` makes of it; nothing where a field is missing or of another type.
template <typename Read>
auto parsed(std::string_view text, Read read) -> std::optional<decltype(read(json()))> {
  try {
    const json from = json::parse(text);
    return from.at("protocol") == kProtocol ? std::optional(read(from)) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string to_text(const Report& report) {
  json text{{"protocol", kProtocol}, {"report", static_cast<int>(report.kind)}};
  if (report.kind == Report::Kind::Alive) {
    return dump(text);
  }
  text["generation"] = report.generation;
  text["port"] = report.port;
  text["causes"] = json::array();
  for (const Cause& cause : report.causes) {
    text["causes"].push_back(to_json(cause));
  }
  if (report.newcomer) {
    text["newcomer"] = to_json(*report.newcomer);
  }
  return dump(text);
}

std::string to_text(const Order& order) {
  json text{{"protocol", kProtocol}, {"order", static_cast<int>(order.kind)}};
  if (order.kind == Order::Kind::Alive) {
    return dump(text);
  }
  text["generation"] = to_json(order.generation);
  text["reason"] = order.reason;
  text["exit_code"] = order.outcome.exit_code;
  text["outcome"] = order.outcome.reason;
  if (order.outcome.cause) {
    text["cause"] = to_json(*order.outcome.cause);
  }
  return dump(text);
}

std::optional<Report> parse_report(std::string_view text) {
  return parsed(text, [](const json& from) {
    Report report;
    const int kind = from.at("report");
    report.kind = kind >= 0 && kind <= static_cast<int>(Report::Kind::Alive) ? static_cast<Report::Kind>(kind)
                                                                             : Report::Kind::Alive;
    if (report.kind == Report::Kind::Alive) {
      return report;
    }
    report.generation = from.at("generation");
    report.port = from.at("port");
    for (const json& cause : from.at("causes")) {
      report.causes.push_back(cause_of(cause));
    }
    if (from.contains("newcomer")) {
      report.newcomer = newcomer_of(from.at("newcomer"));
    }
    return report;
  });
}

std::optional<Order> parse_order(std::string_view text) {
  return parsed(text, [](const json& from) {
    Order order;
    const int kind = from.at("order");
    order.kind =
        kind >= 0 && kind <= static_cast<int>(Order::Kind::Alive) ? static_cast<Order::Kind>(kind) : Order::Kind::Alive;
    if (order.kind == Order::Kind::Alive) {
      return order;
    }
    order.generation = generation_of(from.at("generation"));
    order.reason = from.at("reason");
    order.outcome = {from.at("exit_code"), std::nullopt, from.at("outcome")};
    if (from.contains("cause")) {
      order.outcome.cause = cause_of(from.at("cause"));
    }
    return order;
  });
}

std::string protocol_of(std::string_view text) {
  const json from = json::parse(text, nullptr, false);
  const bool claims = from.is_object() && from.contains("protocol") && from["protocol"].is_string();
  return claims ? from["protocol"].get<std::string>() : "";
}

}  // namespace rollcall::elastic
