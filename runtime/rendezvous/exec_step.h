#pragma once

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"

namespace rollcall::rendezvous {

/// step::resolve_this_step() for a program that this process becomes by exec(2) and that listens itself, at MASTER_ADDR
/// and MASTER_PORT. Where a PMIx server started this task and the endpoint is ours to choose (nobody set MASTER_ADDR or
/// MASTER_PORT, no enclosing rollcall did for this step, setting `rendezvous` is auto or pmix), the ranks agree on it
/// over PMIx: rank 0 takes the first port from its own choice on that is free on its host, and tells it to all with its
/// host's name. Collective then: every rank of the step calls it.
///
/// The PMIx client is closed on return, so that the program's death is its own affair and the program can become a
/// client itself; those of the other ranks of this node are closed as well, or their ranks are lost: each is waited for
/// up to `rendezvous.timeout`, and a warning tells of one that did not come. The patch holds
/// PMIX_MCA_gds=hash for that: a second client of the same rank finds nothing in the server's shared memory (PMIx 4.2).
/// Under `auto` PMIx is left to the program where the user chose another PMIX_MCA_gds, and where Slurm's own variables
/// say everything (an enclosing `srun --ddp`, or the user's MASTER_ADDR).
///
/// Errors: those of step::resolve_this_step(); (Unavailable): a rank did not come within `rendezvous.timeout`, no port
/// is free, `rendezvous` is pmix and there is none. An error of one rank lets the others go on.
[[nodiscard]] Result<step::ResolvedStep> resolve_for_exec(const Environment& user,
                                                          const settings::LaunchSettings& settings);

/// The same over a client that is there already; tests call it.
[[nodiscard]] Result<step::ResolvedStep> resolve_and_agree(const Environment& user,
                                                           const settings::LaunchSettings& settings,
                                                           launchers::PmixClient& pmix);

}  // namespace rollcall::rendezvous
