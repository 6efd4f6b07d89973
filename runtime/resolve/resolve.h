#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/network/network_view.h"
#include "runtime/resolve/env_patch.h"
#include "runtime/settings/settings.h"

namespace rollcall::resolve {

/// The heart of rollcall: facts in, environment out. Pure: no I/O, no globals, same input, same output on every node.
///
/// `user` is the environment that the task would have without rollcall. A variable that it holds is kept, unless an
/// outer rollcall set it (variable ROLLCALL_SET names those, with a hash of the value it gave: a value changed since is
/// the user's). Where a kept value disagrees with ours, a warning says so.
///
/// Errors: no candidate name of the head node resolves usably; port.range is empty or overlaps the ephemeral range; a
/// user's RANK or WORLD_SIZE contradicts the step (exit code Mismatch); a configured interface exists nowhere.
[[nodiscard]] Result<EnvPatch> resolve(const job::JobFacts& facts, const settings::Settings& settings,
                                       const network::NetworkView& network, const Environment& user,
                                       std::uint32_t cpus_of_task);

/// Settings `venv` and `venv.root` as one path, not expanded yet: a name alone is a folder of venv.root. Empty: none.
[[nodiscard]] std::string configured_venv(const settings::Settings& settings);

}  // namespace rollcall::resolve
