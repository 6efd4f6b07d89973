// The hooks that Slurm calls, and nothing else. None lets an exception out; none fails on a node before task_init,
// since an earlier failure drains the node; none does more than look at a flag unless --ddp was given.

#include <exception>
#include <optional>

#include "spank_plugin/failure.h"
#include "spank_plugin/launch.h"
#include "spank_plugin/options.h"
#include "spank_plugin/slurm_spank.h"
#include "spank_plugin/spank_env.h"
#include "spank_plugin/task.h"

SPANK_PLUGIN(rollcall, 1)

namespace {

using namespace rollcall;

// One of each a process: srun, sbatch and salloc handle one command line, slurmstepd one step; tasks inherit by fork.
std::optional<std::string> g_site_file;
std::optional<spank::DdpOption> g_option;
std::optional<Result<spank::StepOnNode>> g_step;

/// Runs a hook's body. An exception is a bug or a lack of memory: it becomes a line and an error.
template <typename Body>
int guarded(Body body) noexcept {
  try {
    return body();
  } catch (const std::exception& exception) {
    slurm_error("rollcall: --ddp: %s; try reporting it", exception.what());
  } catch (...) {
    slurm_error("rollcall: --ddp: unknown exception; try reporting it");
  }
  return ESPANK_ERROR;
}

int refuse(const Error& error) {
  spank::print_error(error);
  return ESPANK_ERROR;
}

/// Called for every --ddp that Slurm meets, at times twice for one: the last word counts.
int on_option(int, const char* argument, int remote) noexcept {
  return guarded([&]() -> int {
    const Result<spank::DdpOption> option = spank::parse_option(argument);
    if (!option) {
      return refuse(option.error());
    }
    g_option = *option;
    if (remote == 0 && option->enabled && spank_context() == S_CTX_LOCAL) {
      if (const Result<void> checked = spank::check_before_launch(*option, g_site_file); !checked) {
        return refuse(checked.error());
      }
    }
    return ESPANK_SUCCESS;
  });
}

}  // namespace

extern "C" {

int slurm_spank_init(spank_t handle, int argument_count, char** arguments) noexcept {
  return guarded([&]() -> int {
    const spank_context_t context = spank_context();
    if (context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR || context == S_CTX_REMOTE) {
      static spank_option option = spank::ddp_option(on_option);
      g_site_file = spank::site_file(argument_count, arguments);
      spank_option_register(handle, &option);
    }
    return ESPANK_SUCCESS;
  });
}

int slurm_spank_user_init(spank_t handle, int, char**) noexcept {
  guarded([&]() -> int {
    if (g_option && g_option->enabled && spank::is_srun_step(handle)) {
      g_step = fail("--ddp", "", "the step could not be observed", "reporting it", ExitCode::Internal);
      g_step = spank::observe_step(handle, *g_option, g_site_file);
    }
    return ESPANK_SUCCESS;
  });
  return ESPANK_SUCCESS;  // whatever happened: task_init tells
}

int slurm_spank_task_init(spank_t handle, int, char**) noexcept {
  return guarded([&]() -> int {
    if (g_step) {
      spank::set_up_task(handle, *g_step);
    }
    return ESPANK_SUCCESS;
  });
}
}
