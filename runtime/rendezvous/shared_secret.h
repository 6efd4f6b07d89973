#pragma once

#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::rendezvous {

/// What a world's or run's Secret is made of where nothing was published for it alone: the first that there is of
///
/// - the file that setting `rendezvous.secret` names,
/// - the step's, in a memory file that `srun --ddp` gave to each task (ROLLCALL_SECRET_FD; memfd_create(2)). One that
///   another user or step made is passed over: the variable comes into programs that did not inherit the descriptor.
///   Where srun drew one and this node's plugin left it on the way, no other takes its place: the step's other nodes
///   have it (Mismatch);
/// - the user's, ${XDG_STATE_HOME:-~/.local/state}/rollcall/secret, which is made where it does not exist. Many
///   processes may do that at once, and all get what the first one made.
///
/// A file is believed that belongs to this user alone, is none but a regular one and no link, and that nobody else may
/// read. `environment` is this process's. Errors (Unavailable): there is no such file, it is not believed, it is too
/// short to keep anybody out.
[[nodiscard]] Result<std::string> shared_secret(const Environment& environment,
                                                const settings::LaunchSettings& settings);

}  // namespace rollcall::rendezvous
