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

/// All ranks have met. On rank 0 it owns the listening socket and the endpoint file. The connections
/// on which they met stay open: both ends of each have shown that they know the world's secret.
struct Meeting {
  Endpoint endpoint;
  WorldKey key;                      ///< the same in all ranks, with rank 0's nonce; "alone" has one, too
  std::optional<Listener> listener;  ///< rank 0 only: already listening on endpoint.port
  std::string method;                ///< "pmix", "file", "address" or "alone"
  std::optional<EndpointFile> file;  ///< rank 0 with method "file"
  Members members = {};              ///< rank 0 only: the other ranks' connections
  Socket head = {};                  ///< the others only: the connection to rank 0
};

/// The client that meet() needs under setting `rendezvous`, or null where PMIx is not to be used: under `file` and
/// `address`, and under `auto` where no PMIx server started this task (PMIX_NAMESPACE is not set) or it cannot be
/// reached. Errors (Unavailable): `rendezvous` is pmix and there is no PMIx.
[[nodiscard]] Result<std::unique_ptr<launchers::PmixClient>> pmix_for(const Environment& environment,
                                                                      const settings::LaunchSettings& settings);

/// Lets all ranks of the step agree on an endpoint at which rank 0 listens already. Collective: every rank calls it
/// once. `patched` is the environment after resolve's patch (the marker in it tells the user's MASTER_* from ours).
///
/// auto: a world of one is "alone"; MASTER_ADDR or MASTER_PORT set by the user → address; a PMIx client → pmix;
/// otherwise address. pmix and file: rank 0 binds a free port (MASTER_PORT where the user set it or Slurm reserved it),
/// then publishes it with a secret for this world alone, so no other process can take the port in between. address:
/// rank 0 binds MASTER_PORT; where it is in use and ours to choose, the first free one of the next 15 in port.range,
/// where the others look as well.
///
/// All ranks return once all are there, and each has shown that it knows this world's secret (admission.h), which is
/// shared_secret()'s under address: a listener of another world, or of another run of this one, is passed over. Errors
/// (Unavailable): port in use, not all ranks within `rendezvous.timeout`, PMIx asked for and absent, nothing says where
/// rank 0 is, no secret; (Usage): no rendezvous.folder; (CannotCreate): the folder cannot be written.
[[nodiscard]] Result<Meeting> meet(const job::JobFacts& facts, const Environment& patched,
                                   const settings::LaunchSettings& settings, launchers::PmixClient* pmix_or_null);

}  // namespace rollcall::rendezvous
