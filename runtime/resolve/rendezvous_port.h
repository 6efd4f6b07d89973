#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/network/ports.h"

namespace rollcall::resolve {

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
