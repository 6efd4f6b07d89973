#pragma once

#include "trainer/config/options.h"

namespace rollcall::train {

/// Prints what `rollcall-train` shows without training: help, recipes, settings with their origins, or the version.
/// With --json the version is command_line::build_facts() with "libtorch" and "features"; a feature that is a plugin
/// counts if this installation has the plugin's file, whether or not it can be loaded here.
void print_only(const config::Options& options);

}  // namespace rollcall::train
