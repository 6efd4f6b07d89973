#pragma once

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::train {

/// Reads the training set for `benchmark-epochs` epochs with the settings' loader and throws the batches away; prints
/// images per second, per second of CPU time, and where the time went: for people, or as one JSON object on the last
/// line. The first of several epochs warms up and is not counted. One process, no process group.
/// Errors: those of the data pipeline and of the loader.
[[nodiscard]] Result<void> benchmark_data(const settings::Settings& settings, const Environment& environment,
                                          bool json);

}  // namespace rollcall::train
