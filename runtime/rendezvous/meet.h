#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/launchers/pmix.h"
#include "runtime/rendezvous/admission.h"
#include "runtime/rendezvous/endpoint.h"
#include "runtime/rendezvous/listener.h"
#include "runtime/rendezvous/world_key.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::rendezvous {

/// The result of a rendezvous. On rank 0 it owns the listening socket and the endpoint file. The connections stay open;
/// both ends of each have proved that they know the world's secret.
struct Meeting {
  Endpoint endpoint;
  WorldKey key;                      ///< the same in all ranks, with rank 0's nonce; also set for "alone"
  std::optional<Listener> listener;  ///< rank 0 only: already listening on endpoint.port
  std::string method;                ///< "pmix", "file", "address" or "alone"
  std::optional<EndpointFile> file;  ///< rank 0 with method "file"
  Members members = {};              ///< rank 0 only: connections to the other ranks
  Socket head = {};                  ///< other ranks only: connection to rank 0
};

/// Returns the PMIx client that meet() needs under setting `rendezvous`. Null where PMIx is not used: under `file` and
/// `address`, and under `auto` where no PMIx server started this task (PMIX_NAMESPACE is not set) or the server cannot
/// be reached. Errors (Unavailable): `rendezvous` is pmix and there is no PMIx.
[[nodiscard]] Result<std::unique_ptr<launchers::PmixClient>> pmix_for(const Environment& environment,
                                                                      const settings::LaunchSettings& settings);

/// Lets all ranks of the step agree on an endpoint at which rank 0 already listens. Collective: every rank calls it
/// once. `patched` is the environment after resolve's patch; its marker distinguishes the user's MASTER_* from ours.
///
/// auto: a world of one rank is "alone"; MASTER_ADDR or MASTER_PORT set by the user → address; a PMIx client → pmix;
/// otherwise address. pmix and file: rank 0 binds a free port (MASTER_PORT where the user set it or Slurm reserved it)
/// and then publishes it with a secret for this world alone, so that no other process can take the port in between.
/// address: rank 0 binds MASTER_PORT. Where it is in use and rollcall chose it, rank 0 binds the first free one of the
/// next 15 in port.range, which the other ranks try as well.
///
/// All ranks return once all are present and each has proved that it knows this world's secret (admission.h), which
/// under address is that of shared_secret(). Listeners of other worlds and of other runs of this one are skipped.
/// Errors (Unavailable): port in use, missing ranks after `rendezvous.timeout`, PMIx requested but absent, rank 0's
/// location unknown, no secret; (Usage): no rendezvous.folder; (CannotCreate): the folder cannot be written.
[[nodiscard]] Result<Meeting> meet(const job::JobFacts& facts, const Environment& patched,
                                   const settings::LaunchSettings& settings, launchers::PmixClient* pmix_or_null);

}  // namespace rollcall::rendezvous
