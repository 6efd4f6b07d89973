#pragma once

#include <string>

#include "runtime/base/result.h"

namespace rollcall {

/// A shared object of this installation that some machines cannot load.
struct PluginFile {
  std::string setting;   ///< the option that needs it, for messages: "--backend"
  std::string value;     ///< the option's value: "mpi"
  std::string folder;    ///< relative to the installation's prefix: "lib/rollcall"
  std::string name;      ///< the file's name: "rollcall_mpi.so"
  std::string function;  ///< the name of the function that it exports
  std::string built;     ///< the condition of its build: "where CMake finds MPI (libopenmpi-dev)"
  std::string to_open;   ///< the action of the error where it exists but cannot be loaded
  std::string instead;   ///< the action of the error where it does not exist: "--backend=auto"
};

/// Loads the plugin and returns the address of its function. Libraries that are loaded later see its symbols
/// (RTLD_GLOBAL), and it is never unloaded. Only a file of this installation is loaded (find_in_installation()).
///
/// Errors: (Usage) it does not exist; (Configuration) others may write to it, or it lacks the function; (Unavailable)
/// it cannot be loaded, for example because a library that it needs is missing.
[[nodiscard]] Result<void*> find_plugin_function(const PluginFile& plugin);

/// Returns the error (Mismatch) for a plugin of another build than this program.
[[nodiscard]] Error plugin_of_another_build(const PluginFile& plugin);

}  // namespace rollcall
