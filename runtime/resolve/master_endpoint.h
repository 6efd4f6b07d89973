#pragma once

#include <cstdint>
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
/// /etc/hosts) is no fault. The value is the name where all its addresses are usable and of one family, otherwise the
/// first usable address, IPv4 before IPv6: a library that tried the others first would hang, and PyTorch's store tries
/// IPv6 first. A step of one node whose name does not
/// resolve gets 127.0.0.1, with a warning.
///
/// Errors (Unavailable, setting host.template): no name has a usable address. Pure.
[[nodiscard]] Result<MasterAddressChoice> choose_master_address(const job::JobFacts& facts,
                                                                const network::NetworkView& network,
                                                                bool loopback_allowed);

/// The port of a step's rendezvous, and why it is this one (shown by `rollcall env`).
struct PortChoice {
  std::uint16_t port = 0;
  std::string reason;
};

/// Chooses MASTER_PORT for one step; the same facts give the same port on every node, with no communication.
///
/// Order: the first port that Slurm reserved for the step (unique per step, see `MpiParams=ports=` in slurm.conf(5)),
/// the second for its second world and so on; otherwise a place in the `configured` range (setting port.range) that
/// steps of one job do not share, as many as the range has ports, nor steps of consecutive jobs as long as jobs times
/// steps is below a third of it. Jobs whose ids are far apart share a port with the odds of chance. Whether
/// the kernel may have given the port away is another question (network::EphemeralPorts), which each node would answer
/// by its own settings.
///
/// Errors: `port.range` empty; SLURM_STEP_RESV_PORTS not a port list.
/// Thread-safe: pure.
[[nodiscard]] Result<PortChoice> choose_rendezvous_port(const job::JobFacts& facts, network::PortRange configured);

}  // namespace rollcall::resolve
