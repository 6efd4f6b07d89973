#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace rollcall::network {

/// An inclusive range of TCP ports, 1 <= first <= last <= 65535.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;

  [[nodiscard]] std::uint32_t size() const { return std::uint32_t{last} - first + 1; }
  [[nodiscard]] bool contains(std::uint16_t port) const { return first <= port && port <= last; }
};

/// "17500-17503,17600": what Slurm and the kernel write. Nothing where it is no such list; an empty text is an empty
/// one.
[[nodiscard]] std::optional<std::vector<PortRange>> parse_port_list(std::string_view text);

/// The ports that a host's kernel gives to outgoing connections of its own choice: a listener that is to have one of
/// them may find it taken.
struct EphemeralPorts {
  PortRange range = {};                  ///< net.ipv4.ip_local_port_range
  std::vector<PortRange> reserved = {};  ///< of these those that it keeps: net.ipv4.ip_local_reserved_ports

  [[nodiscard]] bool contains(std::uint16_t port) const;
};

/// What /proc/sys says of this host; Linux's default 32768-60999 where it cannot be read.
[[nodiscard]] EphemeralPorts ephemeral_ports();

}  // namespace rollcall::network
