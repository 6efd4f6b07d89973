#include "runtime/network/ports.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "runtime/base/text.h"

namespace rollcall::network {
namespace {

/// "17500-17503" or "17500"; nothing for anything else.
std::optional<PortRange> parse_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = parse_integer<std::uint16_t>(text.substr(0, dash));
  const auto last = dash == text.npos ? first : parse_integer<std::uint16_t>(text.substr(dash + 1));
  const bool sound = first && last && *first > 0 && *first <= *last;
  return sound ? std::optional(PortRange{*first, *last}) : std::nullopt;
}

}  // namespace

std::optional<std::vector<PortRange>> parse_port_list(std::string_view text) {
  std::vector<PortRange> ranges;
  for (const std::string& part : split(text, ',')) {
    const std::optional<PortRange> range = parse_range(part);
    if (!range) {
      return std::nullopt;
    }
    ranges.push_back(*range);
  }
  return ranges;
}

bool EphemeralPorts::contains(std::uint16_t port) const {
  return range.contains(port) && std::ranges::none_of(reserved, [&](PortRange kept) { return kept.contains(port); });
}

EphemeralPorts ephemeral_ports() {
  EphemeralPorts ports{.range = {32768, 60999}};
  std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
  if (PortRange said; range >> said.first >> said.last && said.first > 0 && said.first <= said.last) {
    ports.range = said;
  }
  std::ifstream reserved("/proc/sys/net/ipv4/ip_local_reserved_ports");
  if (std::string list; reserved >> list) {
    ports.reserved = parse_port_list(list).value_or(ports.reserved);
  }
  return ports;
}

}  // namespace rollcall::network
