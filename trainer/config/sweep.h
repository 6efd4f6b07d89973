#pragma once

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::config {

/// Applies line N of the file of --sweep to `settings` in element N of a job array: options as on a command line,
/// separated by blanks, each as --name=value. They override all other layers. Does nothing without --sweep.
///
/// Errors: (Usage) this is no element of a job array, the file has fewer lines, or a word is no option; (NoInput) the
/// file cannot be read; those of Settings::set().
[[nodiscard]] Result<void> apply_sweep(settings::Settings& settings, const Environment& environment);

}  // namespace rollcall::config
