#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/network/network_view.h"

namespace rollcall::resolve {

struct MasterAddressChoice {
  std::string value;  ///< MASTER_ADDR
  std::string reason;
  std::vector<std::string> warnings;
};

/// Chooses MASTER_ADDR: the first of `network.head_names` (as observed, best first) with a usable address. Link-local
/// addresses are never usable; loopback ones only where the step has one node, where `loopback_allowed` (setting
/// host.loopback is allow), or on the head node itself: a name that is loopback on its own host only (127.0.1.1 in
/// /etc/hosts) is no fault. The value is the name where all its addresses are usable, otherwise the first usable
/// address, IPv4 before IPv6: a library that tried the others first would hang. A step of one node whose name does not
/// resolve gets 127.0.0.1, with a warning.
///
/// Errors (Unavailable, setting host.template): no name has a usable address. Pure.
[[nodiscard]] Result<MasterAddressChoice> choose_master_address(const job::JobFacts& facts,
                                                                const network::NetworkView& network,
                                                                bool loopback_allowed);

}  // namespace rollcall::resolve
