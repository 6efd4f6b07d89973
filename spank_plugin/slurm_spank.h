#pragma once

// <slurm/spank.h> for C++: it declares the hooks without C linkage, and a constant defined by its SPANK_PLUGIN would
// stay inside its file. These names are what the plugin shows to Slurm, whatever the compiler's default visibility.
#pragma GCC visibility push(default)
extern "C" {
#include <slurm/spank.h>

// NOLINTBEGIN(bugprone-dynamic-static-initializers): the definitions are constants
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
// NOLINTEND(bugprone-dynamic-static-initializers)
}
#pragma GCC visibility pop
