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

/// An address of this host or of a name, in its usual notation.
struct Address {
  std::string text;  ///< "10.78.0.1", "fe80::1"
  bool ipv4 = true;
  bool loopback = false;
  bool link_local = false;
};

struct Interface {
  std::string name;  ///< "ib0"
  bool up = false;   ///< IFF_UP and IFF_RUNNING
  bool loopback = false;
  std::vector<Address> addresses;
};

/// A host name that was tried, and what it resolved to (usable order: IPv4 first; empty: it does not resolve).
struct ResolvedName {
  std::string name;
  std::vector<Address> addresses;
  std::string error;  ///< getaddrinfo's text where it failed
};

/// What this host says about its network. `resolve` reads it and does no I/O itself.
struct NetworkView {
  std::string host_name;  ///< gethostname(2)
  std::vector<Interface> interfaces;
  std::vector<ResolvedName> head_names;    ///< candidates for MASTER_ADDR, in order of preference
  std::optional<ResolvedName> users_head;  ///< the MASTER_ADDR that the user set
  std::optional<std::string>
      route_interface;  ///< the interface by which this host reaches the head node (or, on the head node, its peers)
  EphemeralPorts ephemeral_ports;
};

/// The address in a sockaddr, classified: loopback is 127/8, ::1 and their IPv4-mapped forms; link-local is 169.254/16
/// and fe80::/10. Nothing where it is neither IPv4 nor IPv6. IPv4-mapped IPv6 addresses come out as IPv4. Pure.
[[nodiscard]] std::optional<Address> from_sockaddr(const sockaddr* address);

/// The addresses of getaddrinfo(3)'s list, IPv4 first (many clusters do not route IPv6), its order otherwise, without
/// duplicates. Pure.
[[nodiscard]] std::vector<Address> addresses_in(const addrinfo* list);

/// The template that means the address by which Slurm itself reaches a node (NodeAddr), for nodes whose names nobody
/// else knows.
inline constexpr std::string_view kNodeAddressTemplate = "{nodeaddr}";

/// The names under which `host` may be reached, best first: `host_template` with every "{host}" replaced, then the
/// plain name, without duplicates. For kNodeAddressTemplate it is "nodeaddr:HOST", a name for resolve_name() only. An
/// empty host gives none, except from a template without "{host}". Pure.
[[nodiscard]] std::vector<std::string> candidate_names(std::string_view host_template, std::string_view host);

/// Looks `name` up (getaddrinfo(3): hosts file, DNS, whatever the node's resolver does): its addresses, IPv4 first, the
/// resolver's order otherwise, without duplicates; or the resolver's error. May block as long as the resolver does.
/// Of a "nodeaddr:HOST" it is the address that Slurm has for the node: scontrol is asked, by one process of a node for
/// those that start beside it.
[[nodiscard]] ResolvedName resolve_name(const std::string& name);

/// Slurm's address or name for a node, or an error (its reason tells).
using AskNodeAddress = std::function<Result<std::string>(const std::string& node)>;
/// The same where another than scontrol is asked.
[[nodiscard]] ResolvedName resolve_name_by(const AskNodeAddress& ask, const std::string& name);

/// What programs are told: the name, or the first of its addresses where only Slurm knows the name.
[[nodiscard]] std::string name_for_programs(const ResolvedName& name);

/// How a name is looked up: resolve_name(), or what remembers its answers (SharedLookUps).
using LookUp = std::function<ResolvedName(const std::string& name)>;

/// This host's interfaces with their addresses (getifaddrs(3)), in the kernel's order. Empty where the kernel refuses.
[[nodiscard]] std::vector<Interface> list_interfaces();

/// The interface from which this host would send to `address`: the owner of the source address that the kernel's
/// routing picks (connect(2) on a datagram socket, which sends nothing). For an address of this host: its owner.
[[nodiscard]] std::optional<std::string> route_interface(const Address& address,
                                                         const std::vector<Interface>& interfaces);

/// How the head node may be found.
struct HeadNode {
  std::vector<std::string> names = {};  ///< candidates, best first
  bool is_this_host = false;
  bool loopback_usable = false;  ///< a step of one node, or setting host.loopback is allow
};

/// All of the above for one step, with names looked up by `look_up`. Names of the head node after the first that has a
/// usable address are not looked up (an unknown name can cost seconds). `route_interface` leads to the head node; on
/// the head node it owns the head's address, or, where that is loopback or no interface's, leads to the first of
/// `peer_names` that resolves. One look-up in the usual case.
[[nodiscard]] NetworkView observe(const HeadNode& head, const std::vector<std::string>& peer_names,
                                  const LookUp& look_up = resolve_name);

}  // namespace rollcall::network
