#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/network/network_view.h"

namespace rollcall::network {

/// What the choice of MASTER_ADDR depends on besides the names.
struct MasterAddressFacts {
  std::string head_host;      ///< rank 0's host as Slurm names it
  std::string this_host;      ///< for messages
  bool this_is_head = false;  ///< a name that is loopback on its own host only (127.0.1.1 in /etc/hosts) is no fault
  std::uint32_t num_nodes = 1;
  bool loopback_allowed = false;  ///< setting host.loopback is allow
};

struct MasterAddressChoice {
  std::string value;  ///< MASTER_ADDR
  std::string reason;
  std::vector<std::string> warnings;
};

/// Chooses MASTER_ADDR: the first of `names` (as observed, best first) with a usable address. Link-local addresses are
/// never usable; loopback ones only where the step has one node, `loopback_allowed`, or on the head node itself. The
/// value is the name where all its addresses are usable, otherwise the first usable address, IPv4 before IPv6: a
/// library that tried the others first would hang. A step of one node whose name does not resolve gets 127.0.0.1, with
/// a warning.
///
/// Errors (Unavailable, setting host.template): no name has a usable address. Pure.
[[nodiscard]] Result<MasterAddressChoice> choose_master_address(const MasterAddressFacts& facts,
                                                                const std::vector<ResolvedName>& names);

}  // namespace rollcall::network
