#pragma once

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/distributed/ddp/make_replica.h"

namespace rollcall::train {

/// How the ranks divide the work, from the settings of group "Parallel". Errors (Usage): a setting of --parallel=fsdp
/// was given for another kind.
[[nodiscard]] Result<parallel::ReplicaOptions> replica_options(const settings::Settings& settings);

}  // namespace rollcall::train
