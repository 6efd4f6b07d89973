#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/elastic/launch_request.h"
#include "runtime/elastic/option_values.h"
#include "runtime/settings/values.h"

// How this node finds the other nodes: --rdzv-*, --master-* and --standalone, interpreted as in
// torch/distributed/elastic/rendezvous.

namespace rollcall::elastic {
namespace {

using settings::Settings;
using std::chrono::milliseconds;

constexpr std::uint16_t kDefaultPort = 29400;  ///< default port of torchrun's c10d backend

bool is_host_character(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (static_cast<unsigned char>(c) >= 0x80);
  return letter || (c >= '0' && c <= '9') || std::string_view("_.:-%").find(c) != std::string_view::npos;
}

bool is_ipv6_address(std::string_view text) {
  in6_addr address{};
  return inet_pton(AF_INET6, std::string(text.substr(0, text.find('%'))).c_str(), &address) == 1;
}

/// Parses "host:29500", "[fd00::1]:29500" or "localhost:0"; port 0 means any. A host alone gets `default_port`; where
/// that is unset, a port is required. As in torchrun, the port follows the last colon.
std::optional<rendezvous::Endpoint> endpoint_of(std::string_view text, std::optional<std::uint16_t> default_port) {
  text = trim(text);
  const bool address_alone = text.starts_with('[') && text.ends_with(']');
  const std::size_t colon = address_alone ? std::string_view::npos : text.rfind(':');
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos && !is_ipv6_address(host)) {
    return std::nullopt;  // the last part of the address would be taken for the port
  }
  const auto port =
      colon == std::string_view::npos ? default_port : parse_integer<std::uint16_t>(text.substr(colon + 1));
  const bool sensible = !host.empty() && std::ranges::all_of(host, is_host_character);
  return sensible && port ? std::optional(rendezvous::Endpoint{std::string(host), *port}) : std::nullopt;
}

struct Entry {
  std::string key;
  std::string value;
};

/// Parses KEY=VALUE,...; the last of equal keys counts. Quotes are ordinary characters.
Result<std::vector<Entry>> entries_of(const Settings& values) {
  std::vector<Entry> entries;
  for (const std::string& text : split(trim(values.text("rdzv-conf")), ',')) {
    const std::size_t equals = std::min(text.find('='), text.size());
    Entry entry{std::string(trim(text.substr(0, equals))),
                std::string(trim(text.substr(std::min(equals + 1, text.size()))))};
    if (entry.key.empty() || entry.value.empty()) {
      return refuse(values, "rdzv-conf", "must be a list of KEY=VALUE",
                    "--rdzv-conf=join_timeout=300,last_call_timeout=10");
    }
    std::erase_if(entries, [&](const Entry& earlier) { return earlier.key == entry.key; });
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// Parses a boolean in lower case.
std::optional<bool> truth_of(const std::string& text) {
  constexpr std::array<std::string_view, 5> kTrue{"1", "true", "t", "yes", "y"};
  constexpr std::array<std::string_view, 5> kFalse{"0", "false", "f", "no", "n"};
  const bool yes = std::ranges::find(kTrue, text) != kTrue.end();
  const bool known = yes || std::ranges::find(kFalse, text) != kFalse.end();
  return known ? std::optional(yes) : std::nullopt;
}

/// Parses seconds, which must be whole in torchrun; unset where the text is not a number.
std::optional<milliseconds> duration_of(const std::string& text) {
  const std::optional<std::int64_t> whole = python_integer(text);
  const std::optional<double> seconds =
      whole ? std::optional(static_cast<double>(*whole)) : settings::parse_number(text);
  const bool sensible = seconds && *seconds >= 0 && *seconds < 1e7;
  return sensible ? std::optional(milliseconds(static_cast<std::int64_t>(*seconds * 1000))) : std::nullopt;
}

/// Returns a warning about a key that torchrun ignores silently.
Error has_no_effect(const std::string& key) {
  if (key == "rank") {
    return fail("--rdzv-conf", key, "has no effect, as in torchrun", "--node-rank");
  }
  if (key == "timeout") {
    return fail("--rdzv-conf", key, "has no effect with --rdzv-backend=c10d, as in torchrun",
                "--rdzv-conf=join_timeout=SECONDS");
  }
  const std::vector<std::string> known{"join_timeout", "last_call_timeout", "heartbeat_timeout", "is_host", "secret"};
  const std::optional<std::string> meant = nearest(key, known);
  return fail("--rdzv-conf", key, "is not a known key and has no effect, as in torchrun",
              meant ? fmt::format("--rdzv-conf={}=VALUE", *meant)
                    : "using join_timeout, last_call_timeout, heartbeat_timeout, is_host or secret");
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

/// Reads --rdzv-conf, whose keys depend on the backend.
class Configuration {
 public:
  Configuration(const Settings& values, bool fixed, MeetingRequest& meeting)
      : values_(values), fixed_(fixed), meeting_(meeting) {}

  Result<void> read() {
    ASSIGN_OR_RETURN(std::vector<Entry> entries, entries_of(values_));
    std::ranges::stable_sort(entries, {},
                             [](const Entry& entry) { return entry.key == "timeout"; });  // takes precedence
    for (const Entry& entry : entries) {
      RETURN_IF_ERROR(take(entry));
    }
    return {};
  }

 private:
  Result<void> take(const Entry& entry) {
    if (entry.key == "is_host") {
      meeting_.host = truth_of(lower(entry.value));
      return meeting_.host ? Result<void>() : no(entry, "must be true or false", "is_host=true");
    }
    if (entry.key == "secret") {
      meeting_.secret_file = entry.value;
      return {};
    }
    if (entry.key == "store_type") {
      return fixed_ || lower(entry.value) == "tcp" ? Result<void>() : no(entry, "must be tcp", "store_type=tcp");
    }
    if (milliseconds* const time = time_of(entry.key)) {
      const std::optional<milliseconds> given = duration_of(entry.value);
      const bool is_heartbeat = time == &meeting_.heartbeat_timeout;
      if (!given || (is_heartbeat && *given < milliseconds(100))) {
        return no(entry, is_heartbeat ? "must be a number of seconds, at least 0.1" : "must be a number of seconds",
                  entry.key + "=10");
      }
      *time = *given;
      return {};
    }
    return take_without_effect(entry);
  }

  /// Returns the duration that the key sets; null: none.
  milliseconds* time_of(std::string_view key) {
    return key == "join_timeout" || (key == "timeout" && fixed_) ? &meeting_.join_timeout
           : key == "last_call_timeout"                          ? &meeting_.last_call_timeout
           : key == "heartbeat_timeout"                          ? &meeting_.heartbeat_timeout
                                                                 : nullptr;
  }

  /// Checks torchrun's other keys as torchrun does; warns about unknown keys.
  Result<void> take_without_effect(const Entry& entry) {
    constexpr std::array<std::string_view, 4> kWhole{"close_timeout", "read_timeout", "keep_alive_interval",
                                                     "keep_alive_max_attempt"};
    if (std::ranges::find(kWhole, entry.key) != kWhole.end()) {
      const std::optional<std::int64_t> number = python_integer(entry.value);
      const bool positive = number && (*number > 0 || entry.key.starts_with("keep"));
      return fixed_ || positive ? Result<void>() : no(entry, "must be a positive whole number", entry.key + "=10");
    }
    if (entry.key == "cas_backoff_max_seconds") {
      const std::optional<double> seconds = settings::parse_number(entry.value);
      return fixed_ || (seconds && *seconds >= 0) ? Result<void>()
                                                  : no(entry, "must be a number of seconds", entry.key + "=1");
    }
    meeting_.warnings.push_back(has_no_effect(entry.key));
    return {};
  }

  Error no(const Entry& entry, std::string_view what, const std::string& instead) const {
    return refuse(values_, "rdzv-conf", fmt::format("{}={} {}", entry.key, printable(entry.value), what),
                  "--rdzv-conf=" + instead);
  }

  const Settings& values_;
  bool fixed_;
  MeetingRequest& meeting_;
};

Result<void> check_backend(const Settings& values) {
  const std::string& backend = values.text("rdzv-backend");
  if (backend == "static" || backend == "c10d" || values.on("standalone")) {
    return {};
  }
  return refuse(
      values, "rdzv-backend",
      backend.starts_with("etcd") ? "is not supported: agents of rollcall run meet without a server" : "is unknown",
      "--rdzv-backend=c10d --rdzv-endpoint=HOST:PORT");
}

/// Returns the rendezvous endpoint.
Result<rendezvous::Endpoint> endpoint_of(const Settings& values, bool fixed) {
  const std::string& given = values.text("rdzv-endpoint");
  const bool from_master = fixed && given.empty();
  const std::string text = from_master ? fmt::format("{}:{}", values.text("master-addr"), values.integer("master-port"))
                           : trim(given).empty() ? "localhost"
                                                 : given;
  const auto endpoint = endpoint_of(text, fixed ? std::nullopt : std::optional(kDefaultPort));
  if (!endpoint) {
    return from_master ? refuse(values, "master-addr", "must be a host name or an address", "--master-addr=node01")
                       : refuse(values, "rdzv-endpoint", "must be HOST:PORT", "--rdzv-endpoint=node01:29400");
  }
  return *endpoint;
}

}  // namespace

Result<MeetingRequest> meeting_request(const Settings& values, const NodeRange& nodes, const HostFacts& host) {
  MeetingRequest meeting;
  RETURN_IF_ERROR(check_backend(values));
  const bool nobody_named_one = values.text("rdzv-backend") == "static" && values.text("rdzv-endpoint").empty() &&
                                values.is_default("master-port") && nodes.most == 1;
  meeting.alone = values.on("standalone") || nobody_named_one;
  const bool fixed = values.text("rdzv-backend") == "static" && !meeting.alone;
  RETURN_IF_ERROR(Configuration(values, fixed, meeting).read());
  if (meeting.alone && nodes.least > 1) {
    return refuse(values, "nnodes", "contradicts --standalone, which is one node", "giving only one of them");
  }
  meeting.local_address = values.text("local-addr");
  meeting.run_id = meeting.alone ? host.new_run_id : values.text("rdzv-id");
  if (meeting.alone) {
    return meeting;
  }
  ASSIGN_OR_RETURN(const rendezvous::Endpoint endpoint, endpoint_of(values, fixed));
  meeting.endpoint = endpoint;
  meeting.alone = nodes.most == 1 && (fixed || endpoint.port == 0);
  if (meeting.alone && endpoint.port != 0) {
    meeting.workers_endpoint = endpoint;
  }
  if (endpoint.port == 0 && nodes.most > 1) {
    return refuse(values, "rdzv-endpoint", "has port 0, which other nodes cannot know", "--rdzv-endpoint=HOST:29400");
  }
  if (fixed) {
    meeting.node_rank = static_cast<std::uint32_t>(values.integer("node-rank"));
    meeting.host = *meeting.node_rank == 0;
    if (*meeting.node_rank >= nodes.most) {
      return refuse(values, "node-rank", fmt::format("must be below the number of nodes, {}", nodes.most),
                    fmt::format("--node-rank={}", nodes.most - 1));
    }
  }
  return meeting;
}

}  // namespace rollcall::elastic
