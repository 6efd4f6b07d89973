#pragma once

#include <string>

#include "runtime/base/result.h"

namespace rollcall {

/// A shared object that belongs to this program and that not every machine can open.
struct PluginFile {
  std::string setting;   ///< what asked for it, for messages: "--backend"
  std::string value;     ///< "mpi"
  std::string folder;    ///< below the installation: "lib/rollcall"
  std::string name;      ///< "rollcall_mpi.so"
  std::string function;  ///< that it exports
  std::string built;     ///< when it is: "where CMake finds MPI (libopenmpi-dev)"
  std::string to_open;   ///< what to try where it is there and cannot be opened
  std::string instead;   ///< what to try where it is not there: "--backend=auto"
};

/// The address of the function that it exports; it is opened for all libraries that are loaded later to see
/// (RTLD_GLOBAL), and never closed. Only a file of this installation is believed (find_above_own_file()).
///
/// Errors: (Usage) there is none; (Configuration) others may write to it, or it has no such function; (Unavailable) it
/// cannot be opened, as where a library that it needs is not found.
[[nodiscard]] Result<void*> find_plugin_function(const PluginFile& plugin);

/// (Mismatch): what the function answers is of another build than this program.
[[nodiscard]] Error plugin_of_another_build(const PluginFile& plugin);

}  // namespace rollcall
