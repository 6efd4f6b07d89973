#pragma once

#include <climits>

#include "spank_plugin/failure.h"
#include "spank_plugin/site.h"

namespace rollcall::spank {

/// Where this plugin was loaded from, "" where the system does not tell. Not by dladdr(3), which lies in another
/// library before glibc 2.34.
struct OwnFile {
  OwnFile();
  char path[PATH_MAX] = "";
};

/// Finds the program `rollcall` that hooks run: rollcall= of `site`, or, where it is not there, bin/rollcall in the
/// nearest folder above this plugin's file that has it (PREFIX/bin/rollcall for
/// PREFIX/lib/ARCHITECTURE/rollcall/spank_rollcall.so); in a build folder it is runtime/rollcall.
///
/// It is believed only where it and all folders that it lies in belong to root, to the owner of the plugin's file or of
/// the root folder, or to whom config_owner= names, and nobody else may write there: it runs as every user who asks for
/// --ddp. `rollcall install` judges by the same rules (runtime/install/hook_program.h). Failures: NotFound;
/// Configuration.
[[nodiscard]] Failure find_program(const Site& site, char (&path)[PATH_MAX]);

}  // namespace rollcall::spank
