#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/network/network_view.h"

namespace rollcall::resolve {

struct MasterAddressChoice {
  std::string value;                  ///< MASTER_ADDR
  std::string reason;                 ///< a clause that explains the choice
  std::vector<std::string> warnings;  ///< why better names were not used
};

/// Chooses MASTER_ADDR: the first of `network.head_names` (best first) with a usable address. Link-local addresses are
/// never usable. Loopback addresses are usable where the step has one node, where `loopback_allowed` (setting
/// host.loopback=allow), or on the head node, whose name may be 127.0.1.1 in its own /etc/hosts. The value is the name
/// where all its addresses are usable and of one family. Otherwise it is the first usable address, IPv4 before IPv6: a
/// library that tried the others first would hang, and PyTorch's store tries IPv6 first. A step of one node whose name
/// does not resolve gets 127.0.0.1, with a warning.
///
/// Errors (Unavailable, setting host.template): no name has a usable address. Pure.
[[nodiscard]] Result<MasterAddressChoice> choose_master_address(const job::JobFacts& facts,
                                                                const network::NetworkView& network,
                                                                bool loopback_allowed);

/// The port of a step's rendezvous, and the reason for it, which `rollcall env` shows.
struct PortChoice {
  std::uint16_t port = 0;
  std::string reason;
};

/// Chooses MASTER_PORT for one step; the same facts give the same port on every node, with no communication.
///
/// The first port that Slurm reserved for the step is preferred (it is unique per step, see `MpiParams=ports=` in
/// slurm.conf(5)); the second world of a step gets the second port, and so on. Otherwise the port is in the
/// `configured` range (setting port.range). There, steps of one job get different ports, up to the size of the range,
/// and so do steps of consecutive jobs as long as jobs times steps is below a third of that size. Jobs with distant ids
/// may share a port by chance. Ephemeral ports, which the kernel may give to a connection, are not considered
/// (network::EphemeralPorts), because their range may differ between nodes.
///
/// Errors: `port.range` is empty; SLURM_STEP_RESV_PORTS is not a port list. Pure, thread-safe.
[[nodiscard]] Result<PortChoice> choose_rendezvous_port(const job::JobFacts& facts, network::PortRange configured);

}  // namespace rollcall::resolve
