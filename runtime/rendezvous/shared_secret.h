#pragma once

#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::rendezvous {

/// Returns the value from which a world's or run's Secret is derived where none was published for it alone. Takes the
/// first that exists:
///
/// - the file that setting `rendezvous.secret` names;
/// - the step's secret, in a memory file that `srun --ddp` gave to each task (ROLLCALL_SECRET_FD; memfd_create(2)).
///   A file of another user or step is ignored, since programs can see the variable without having inherited the
///   descriptor. Where srun drew a secret but this node's plugin did not pass it on, no other one replaces it, because
///   the step's other nodes use it (Mismatch);
/// - the user's file ${XDG_STATE_HOME:-~/.local/state}/rollcall/secret, which is created where it does not exist. Where
///   many processes create it at once, all get the content of the first.
///
/// A file is trusted where it is a regular file, not a link, belongs to this user and is readable by nobody else.
/// `environment` is this process's. Errors (Unavailable): the file does not exist, is not trusted, or is too short to
/// be secure.
[[nodiscard]] Result<std::string> shared_secret(const Environment& environment,
                                                const settings::LaunchSettings& settings);

}  // namespace rollcall::rendezvous
