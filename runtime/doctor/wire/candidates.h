#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/network/network_view.h"
#include "runtime/rendezvous/endpoint.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::doctor {

/// Where rank 0 may be reachable, so that a report arrives even where the endpoint that programs would use fails.
struct Candidates {
  std::optional<rendezvous::Endpoint> expected;  ///< MASTER_ADDR and MASTER_PORT, which programs would use
  std::string expected_error;                    ///< why that host cannot be used: its name is known not to resolve
  std::vector<network::Address> addresses;       ///< addresses of that host, where it is a name
  std::uint16_t second_port = 0;                 ///< rank 0 also listens there where it is free; 0: none
  std::string this_host;                         ///< for messages
  std::vector<std::string> hosts;                ///< other names and addresses of the head node, best first
};

/// Returns the candidates for these facts, which are the same on every node. Where resolve failed there is no `patch`:
/// then the port is found as resolve would have found it, and the hosts are those that did resolve. Pure.
[[nodiscard]] Candidates candidates_of(const job::JobFacts& facts, const settings::LaunchSettings& settings,
                                       const network::NetworkView& network, const Environment& user,
                                       const Result<resolve::EnvPatch>& patch);

/// Returns every endpoint to try, the expected one first. Omits names that are known not to resolve, since another
/// look-up costs seconds.
[[nodiscard]] std::vector<rendezvous::Endpoint> endpoints_of(const Candidates& candidates);

}  // namespace rollcall::doctor
