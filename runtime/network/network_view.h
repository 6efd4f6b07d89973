#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/network/rendezvous_port.h"

namespace rollcall::network {

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

/// What this host says about its network, observed once per node and step. `resolve` reads it and does no I/O itself.
struct NetworkView {
  std::string host_name;  ///< gethostname(2)
  std::vector<Interface> interfaces;
  std::vector<ResolvedName> head_names;  ///< candidates for MASTER_ADDR, in order of preference
  std::optional<std::string>
      route_interface;  ///< the interface by which this host reaches the head node (or, on the head node, its peers)
  PortRange ephemeral_ports{};  ///< /proc/sys/net/ipv4/ip_local_port_range
};

}  // namespace rollcall::network
