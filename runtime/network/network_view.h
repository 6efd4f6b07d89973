#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::network {

/// An inclusive range of TCP ports, 1 <= first <= last <= 65535.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;

  [[nodiscard]] std::uint32_t size() const { return std::uint32_t{last} - first + 1; }
  [[nodiscard]] bool contains(std::uint16_t port) const { return first <= port && port <= last; }
};

/// Parses a list of Slurm or the kernel: "17500-17503,17600". Nothing where it is invalid; an empty text is an empty
/// list.
[[nodiscard]] std::optional<std::vector<PortRange>> parse_port_list(std::string_view text);

/// The ports that the kernel assigns to outgoing connections, so that a listener may find one of them in use.
struct EphemeralPorts {
  PortRange range = {};                  ///< net.ipv4.ip_local_port_range
  std::vector<PortRange> reserved = {};  ///< ports that are excluded: net.ipv4.ip_local_reserved_ports

  [[nodiscard]] bool contains(std::uint16_t port) const;
};

/// Reads this host's ephemeral ports from /proc/sys. Returns Linux's default, 32768-60999, where that fails.
[[nodiscard]] EphemeralPorts ephemeral_ports();

/// An IP address of this host or of a name.
struct Address {
  std::string text;  ///< "10.78.0.1", "fe80::1"
  bool ipv4 = true;
  bool loopback = false;
  bool link_local = false;
};

/// A network interface of this host.
struct Interface {
  std::string name;  ///< "ib0"
  bool up = false;   ///< IFF_UP and IFF_RUNNING
  bool loopback = false;
  std::vector<Address> addresses;
};

/// A host name and its addresses.
struct ResolvedName {
  std::string name;
  std::vector<Address> addresses;  ///< IPv4 first; empty: the name does not resolve
  std::string error;               ///< the text of getaddrinfo(3) where it failed
};

/// This host's view of the network. `resolve` uses it, so that it needs no I/O.
struct NetworkView {
  std::string host_name;  ///< gethostname(2)
  std::vector<Interface> interfaces;
  std::vector<ResolvedName> head_names;        ///< candidates for MASTER_ADDR, in order of preference
  std::optional<ResolvedName> users_head;      ///< the user's MASTER_ADDR; unset: the user did not set it
  std::optional<std::string> route_interface;  ///< the interface towards the head node, or on that node to its peers
  EphemeralPorts ephemeral_ports;
};

/// Converts a sockaddr and classifies it: loopback is 127/8 and ::1, link-local is 169.254/16 and fe80::/10.
/// IPv4-mapped IPv6 addresses become IPv4. Nothing where it is neither IPv4 nor IPv6. Pure.
[[nodiscard]] std::optional<Address> from_sockaddr(const sockaddr* address);

/// Returns the addresses in a list of getaddrinfo(3) without duplicates, in its order but IPv4 first, because many
/// clusters do not route IPv6. Pure.
[[nodiscard]] std::vector<Address> addresses_in(const addrinfo* list);

/// The template for the address by which Slurm reaches a node (NodeAddr), for nodes whose names do not resolve.
inline constexpr std::string_view kNodeAddressTemplate = "{nodeaddr}";

/// Returns the names that may reach `host`, best first and without duplicates: `host_template` with each "{host}"
/// replaced, then `host`. For kNodeAddressTemplate it is "nodeaddr:HOST", which only resolve_name() knows. An empty
/// host gives no names, except from a template without "{host}". Pure.
[[nodiscard]] std::vector<std::string> candidate_names(std::string_view host_template, std::string_view host);

/// Looks up `name` with getaddrinfo(3), and returns its addresses or the resolver's error. May block as long as the
/// resolver does. For "nodeaddr:HOST" it asks scontrol for the node's address; one process per node does that for the
/// others that start at the same time.
[[nodiscard]] ResolvedName resolve_name(const std::string& name);

/// Returns Slurm's address or name of a node, or an error with a reason.
using AskNodeAddress = std::function<Result<std::string>(const std::string& node)>;
/// Looks up `name` like resolve_name(), but calls `ask` instead of scontrol.
[[nodiscard]] ResolvedName resolve_name_by(const AskNodeAddress& ask, const std::string& name);

/// Returns the name that programs get: the name itself, or its first address where only Slurm knows the name.
[[nodiscard]] std::string name_for_programs(const ResolvedName& name);

/// Looks up a name: resolve_name(), or a function that caches its answers (SharedLookUps).
using LookUp = std::function<ResolvedName(const std::string& name)>;

/// Lists this host's interfaces with their addresses (getifaddrs(3)), in the kernel's order. Empty where the kernel
/// refuses.
[[nodiscard]] std::vector<Interface> list_interfaces();

/// Returns the interface from which this host sends to `address`: the one with the source address that the kernel
/// selects (connect(2) on a datagram socket, which sends nothing). For an address of this host, its own interface.
[[nodiscard]] std::optional<std::string> route_interface(const Address& address,
                                                         const std::vector<Interface>& interfaces);

/// The names of the head node, and which of its addresses are usable.
struct HeadNode {
  std::vector<std::string> names = {};  ///< candidates, best first
  bool is_this_host = false;
  bool loopback_usable = false;  ///< whether the step has one node, or the setting host.loopback is allow
};

/// Observes the network of one step. Names of the head node are looked up by `look_up` until one has a usable address,
/// because an unknown name may take seconds: usually that is one look-up. `route_interface` leads to the head node. On
/// the head node it is the interface with the head's address. Where that address is loopback or on no interface, it
/// leads to the first of `peer_names` that resolves.
[[nodiscard]] NetworkView observe(const HeadNode& head, const std::vector<std::string>& peer_names,
                                  const LookUp& look_up = resolve_name);

}  // namespace rollcall::network
