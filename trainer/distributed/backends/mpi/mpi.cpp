// The program's side of MPI: opens the plugin and gives its engine to c10d.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "runtime/base/plugin.h"
#include "trainer/distributed/backends/backends.h"
#include "trainer/distributed/backends/c10d/engine_backend.h"
#include "trainer/distributed/backends/mpi/plugin/plugin.h"
#include "trainer/distributed/errors/exceptions.h"

namespace rollcall::process_group {
namespace {

Result<const mpi::Plugin*> open_plugin() {
  const PluginFile file{.setting = "--backend",
                        .value = "mpi",
                        .folder = ROLLCALL_PLUGIN_FOLDER,
                        .name = "rollcall_mpi.so",
                        .function = mpi::kPluginFunction,
                        .built = "where CMake finds MPI (libopenmpi-dev)",
                        .to_open = "loading the module of the MPI that rollcall was built with",
                        .instead = "--backend=auto, or installing MPI's headers and building again"};
  // Open MPI opens components of its own that take its symbols from it.
  ASSIGN_OR_RETURN(void* const found, find_plugin_function(file));
  const mpi::Plugin& plugin = *reinterpret_cast<mpi::PluginFunction>(found)();
  if (plugin.build != ROLLCALL_PLUGIN_BUILD) {
    return plugin_of_another_build(file);
  }
  return &plugin;
}

/// Opens rollcall_mpi.so of this installation, once; it is never closed. Errors: (Usage) there is none; (Unavailable)
/// it cannot be opened, since a library that it needs is not found; (Mismatch) it is of another build.
Result<const mpi::Plugin*> plugin() {
  static const Result<const mpi::Plugin*> opened = open_plugin();
  return opened;
}

Result<std::unique_ptr<Engine>> connect(const BootstrapAllGather& arrival, const BootstrapAllGather& all_gather) {
  const Result<const mpi::Plugin*> opened = plugin();
  return opened ? (*opened)->connect(arrival, all_gather) : Result<std::unique_ptr<Engine>>(opened.error());
}

/// Throws CollectiveFailure with the errors of plugin() and mpi::Plugin::connect().
void add_mpi(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store, const BackendOptions& options) {
  const auto over = [&](const char* name) {
    return bootstrap_over(c10::make_intrusive<c10d::PrefixStore>(name, store), group.getRank(), group.getSize());
  };
  Result<std::unique_ptr<Engine>> engine = connect(over("mpi/arrived"), over("mpi"));
  if (!engine) {
    throw CollectiveFailure(engine.error());
  }
  set_engine(group, "mpi", c10d::ProcessGroup::BackendType::MPI, *std::move(engine), options.timeout);
}

}  // namespace

const Backend kMpi{.add = add_mpi};

}  // namespace rollcall::process_group
