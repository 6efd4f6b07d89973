#include "trainer/distributed/process_group/mpi_plugin.h"

#include <dlfcn.h>
#include <filesystem>
#include <optional>
#include <string>

#include "runtime/base/this_process.h"

namespace rollcall::process_group {
namespace {

Result<const mpi::Plugin*> open_plugin() {
  const std::string name = "rollcall_mpi.so";
  const auto file = find_above_own_file(std::filesystem::path(ROLLCALL_PLUGIN_FOLDER) / name);
  if (!file) {
    return fail("--backend", "mpi",
                name + " is not in " ROLLCALL_PLUGIN_FOLDER
                       " of this installation: it is built where CMake finds MPI (libopenmpi-dev)",
                "--backend=auto, or installing MPI's headers and building again");
  }
  // RTLD_GLOBAL: Open MPI opens components of its own that take its symbols from here.
  void* const library = dlopen(file->c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return fail("--backend", "mpi", dlerror(), "loading the module of the MPI that rollcall was built with",
                ExitCode::Unavailable);
  }
  const auto function = reinterpret_cast<mpi::PluginFunction>(dlsym(library, mpi::kPluginFunction));
  if (function == nullptr || function().build != ROLLCALL_PLUGIN_BUILD) {
    return fail("--backend", "mpi", file->string() + " is of another build than this program",
                "installing both of one build", ExitCode::Mismatch);
  }
  return &function();
}

}  // namespace

Result<const mpi::Plugin*> load_mpi_plugin() {
  static const Result<const mpi::Plugin*> plugin = open_plugin();
  return plugin;
}

}  // namespace rollcall::process_group
