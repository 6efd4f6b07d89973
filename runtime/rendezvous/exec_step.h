#pragma once

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"

namespace rollcall::rendezvous {

/// Resolves the step as step::resolve_this_step() does, for a program that replaces this process by exec(2) and listens
/// itself, at MASTER_ADDR and MASTER_PORT. The ranks agree on the endpoint over PMIx where a PMIx server started this
/// task and rollcall may choose it (nobody set MASTER_ADDR or MASTER_PORT, no enclosing rollcall did for this step,
/// setting `rendezvous` is auto or pmix): rank 0 takes the first free port on its host, beginning with its own choice,
/// and sends it with its host's name to all. The call is then collective: every rank of the step makes it.
///
/// The PMIx client is closed on return, so that the program can become a client itself and its death does not concern
/// PMIx. The clients of the node's other ranks are closed as well, or their ranks are lost: each is waited for up to
/// `rendezvous.timeout`, and a warning names one that did not close. The patch therefore contains PMIX_MCA_gds=hash: a
/// second client of the same rank finds nothing in the server's shared memory (PMIx 4.2). Under `auto`, PMIx is left to
/// the program where the user chose another PMIX_MCA_gds, and where Slurm's variables suffice (an enclosing
/// `srun --ddp`, or the user's MASTER_ADDR).
///
/// Errors: those of step::resolve_this_step(); (Unavailable): a rank did not arrive within `rendezvous.timeout`, no
/// port is free, or `rendezvous` is pmix without PMIx. An error of one rank does not stop the others.
[[nodiscard]] Result<step::ResolvedStep> resolve_for_exec(const Environment& user,
                                                          const settings::LaunchSettings& settings);

/// Resolves likewise with an existing client, for tests.
[[nodiscard]] Result<step::ResolvedStep> resolve_and_agree(const Environment& user,
                                                           const settings::LaunchSettings& settings,
                                                           launchers::PmixClient& pmix);

}  // namespace rollcall::rendezvous
