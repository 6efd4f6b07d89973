#pragma once

#include "runtime/base/environment.h"
#include "runtime/rendezvous/resolved_step.h"
#include "runtime/settings/settings.h"

namespace rollcall::cli {

/// What the plugin does for all tasks of a node at once, for this task: makes the caches' folders, takes those that
/// cannot be used out of `step.patch`, and (rank 0) adds a warning of files that the site will soon delete. Never
/// fails.
void prepare_folders(rendezvous::ResolvedStep& step, const settings::Settings& settings,
                     const Environment& environment);

}  // namespace rollcall::cli
