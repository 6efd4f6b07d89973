// The program's side of MPI: opens the plugin and gives its engine to c10d.
#include <dlfcn.h>
#include <fmt/format.h>
#include <filesystem>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "runtime/base/this_process.h"
#include "trainer/distributed/backends/backends.h"
#include "trainer/distributed/backends/c10d/engine_backend.h"
#include "trainer/distributed/backends/mpi/plugin/plugin.h"
#include "trainer/distributed/errors/exceptions.h"

namespace rollcall::process_group {
namespace {

Result<const mpi::Plugin*> open_plugin() {
  const std::string name = "rollcall_mpi.so";
  const auto [file, passed_over] = find_above_own_file(std::filesystem::path(ROLLCALL_PLUGIN_FOLDER) / name);
  if (!passed_over.empty()) {
    return fail("--backend", "mpi", fmt::format("{} is not believed: {}", name, passed_over),
                "chown or chmod go-w there, or --backend=auto");
  }
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

/// rollcall_mpi.so of this installation, opened once and never closed. Errors: (Usage) there is none; (Unavailable) it
/// cannot be opened, since a library that it needs is not found; (Mismatch) it is of another build.
Result<const mpi::Plugin*> plugin() {
  static const Result<const mpi::Plugin*> opened = open_plugin();
  return opened;
}

Result<std::unique_ptr<Engine>> connect(const Exchange& arrival, const Exchange& exchange) {
  const Result<const mpi::Plugin*> opened = plugin();
  return opened ? (*opened)->connect(arrival, exchange) : Result<std::unique_ptr<Engine>>(opened.error());
}

}  // namespace

void add_mpi(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store, const BackendOptions& options) {
  const auto over = [&](const char* name) {
    return exchange_over(c10::make_intrusive<c10d::PrefixStore>(name, store), group.getRank(), group.getSize());
  };
  Result<std::unique_ptr<Engine>> engine = connect(over("mpi/arrived"), over("mpi"));
  if (!engine) {
    throw CollectiveFailure(engine.error());
  }
  set_engine(group, "mpi", c10d::ProcessGroup::BackendType::MPI, *std::move(engine), options.timeout);
}

}  // namespace rollcall::process_group
