#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/network/network_view.h"

namespace rollcall::network {

/// Looks `name` up (getaddrinfo(3): hosts file, DNS, whatever the node's resolver does): its addresses, IPv4 first, the
/// resolver's order otherwise, without duplicates; or the resolver's error. May block as long as the resolver does.
[[nodiscard]] ResolvedName resolve_name(const std::string& name);

/// This host's interfaces with their addresses (getifaddrs(3)), in the kernel's order. Empty where the kernel refuses.
[[nodiscard]] std::vector<Interface> list_interfaces();

/// The interface from which this host would send to `address`: the owner of the source address that the kernel's
/// routing picks (connect(2) on a datagram socket, which sends nothing). For an address of this host: its owner.
[[nodiscard]] std::optional<std::string> route_interface(const Address& address,
                                                         const std::vector<Interface>& interfaces);

/// /proc/sys/net/ipv4/ip_local_port_range, Linux's default 32768-60999 where it cannot be read.
[[nodiscard]] PortRange ephemeral_ports();

/// gethostname(2); empty where it fails.
[[nodiscard]] std::string this_host_name();

/// How the head node may be found.
struct HeadNode {
  std::vector<std::string> names = {};  ///< candidates, best first
  bool is_this_host = false;
  bool loopback_usable = false;  ///< a step of one node, or setting host.loopback is allow
};

/// All of the above for one step. Names of the head node after the first that has a usable address are not looked up
/// (an unknown name can cost seconds). `route_interface` leads to the head node; on the head node it owns the head's
/// address, or, where that is loopback or no interface's, leads to the first of `peer_names` that resolves. One look-up
/// in the usual case.
[[nodiscard]] NetworkView observe(const HeadNode& head, const std::vector<std::string>& peer_names);

}  // namespace rollcall::network
