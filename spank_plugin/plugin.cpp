// The hooks that Slurm calls, and nothing else. None lets an exception out; none fails on a node before task_init,
// since an earlier failure drains the node; none does more than look at a flag unless --ddp was given.

#include <exception>
#include <optional>

#include "spank_plugin/launch.h"
#include "spank_plugin/options.h"
#include "spank_plugin/slurm_spank.h"
#include "spank_plugin/spank_env.h"
#include "spank_plugin/step_on_node.h"
#include "spank_plugin/task.h"

SPANK_PLUGIN(rollcall, 1)

namespace {

using namespace rollcall;

// One of each a process: srun, sbatch and salloc handle one command line, slurmstepd one step; tasks inherit by fork.
std::optional<std::string> g_site_file;
std::optional<std::string> g_task_prolog;
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

/// The option on the submitting host: mistakes are refused here, before anything starts.
Result<void> take_option_here(const spank::DdpOption& option) {
  const bool in_srun = spank_context() == S_CTX_LOCAL;
  if (option.enabled) {
    if (Result<void> checked = spank::check_before_launch(option, g_site_file, in_srun); !checked) {
      return checked;
    }
  }
  if (in_srun && g_task_prolog) {
    return spank::hand_to_task_prolog(*g_task_prolog, option);
  }
  if (g_task_prolog && option.enabled) {
    spank::say_what_a_batch_script_needs();
  }
  return {};
}

/// Called for every --ddp that Slurm meets, at times twice for one: the last word counts.
int on_option(int, const char* argument, int remote) noexcept {
  return guarded([&]() -> int {
    g_option = spank::parse_option(argument);
    if (remote == 0) {
      if (const Result<void> taken = take_option_here(*g_option); !taken) {
        spank::print_error(taken.error());
        return ESPANK_ERROR;
      }
    }
    return ESPANK_SUCCESS;
  });
}

}  // namespace

// spank.h declares them without noexcept; guarded() is what lets no exception out.
extern "C" {

int slurm_spank_init(spank_t handle, int argument_count, char** arguments) {
  return guarded([&]() -> int {
    const spank_context_t context = spank_context();
    if (context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR || context == S_CTX_REMOTE) {
      static spank_option option = spank::ddp_option(on_option);
      g_site_file = spank::site_file(argument_count, arguments);
      g_task_prolog = spank::task_prolog(argument_count, arguments);
      if (context == S_CTX_LOCAL && g_task_prolog) {
        spank::announce_task_prolog(*g_task_prolog);
      }
      spank_option_register(handle, &option);
    }
    return ESPANK_SUCCESS;
  });
}

int slurm_spank_user_init(spank_t handle, int, char**) {
  guarded([&]() -> int {
    if (g_option && g_option->enabled && spank::is_srun_step(handle)) {
      g_step = fail("--ddp", "", "the step could not be observed", "reporting it", ExitCode::Internal);
      g_step = spank::observe_step(handle, *g_option, g_site_file);
    }
    return ESPANK_SUCCESS;
  });
  return ESPANK_SUCCESS;  // whatever happened: task_init tells
}

int slurm_spank_task_init(spank_t handle, int, char**) {
  return guarded([&]() -> int {
    if (g_step) {
      spank::set_up_task(handle, *std::move(g_step));  // a task's process is its own: nobody else reads it there
    }
    return ESPANK_SUCCESS;
  });
}
}
