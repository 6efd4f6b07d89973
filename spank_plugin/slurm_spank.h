#pragma once

// <slurm/spank.h> for C++. The header declares the hooks without C linkage, and the constants of its SPANK_PLUGIN would
// have internal linkage. The plugin exports these names, whatever the compiler's default visibility is.
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
