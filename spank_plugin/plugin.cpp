// The hooks that Slurm calls, and nothing else. None lets an exception out; none fails on a node before task_init,
// since an earlier failure drains the node; none does more than look at a flag or variable unless --ddp was given.

#include <unistd.h>

#include <exception>
#include <optional>

#include "spank_plugin/launch.h"
#include "spank_plugin/options.h"
#include "spank_plugin/slurm_spank.h"
#include "spank_plugin/spank_view.h"
#include "spank_plugin/task.h"

SPANK_PLUGIN(rollcall, 1)

namespace {

using namespace rollcall;

// One of each a process: srun, sbatch and salloc handle one command line, slurmstepd one step; tasks inherit by fork.
settings::PluginProfile g_site;
std::optional<std::string> g_task_prolog;
std::optional<spank::DdpOption> g_option;
bool g_option_was_lost = false;  // Slurm passes over an error of the callback on a node
bool g_ends_with_first_failure = false;
spank::SharedByTasks g_shared;

/// Runs a hook's body. An exception is a bug or a lack of memory: it becomes a line and an error.
template <typename Body>
int run_hook(Body body) noexcept {
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
    if (Result<void> checked = spank::check_before_launch(option, g_site, in_srun); !checked) {
      return checked;
    }
  }
  if (in_srun) {
    spank::say_if_end_with_first_failure_is_missing(option, g_site);
    spank::drop_values_of_another_job(option);
    spank::warn_of_binding_of_another_step(option);
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
  g_option_was_lost = true;
  const int status = run_hook([&]() -> int {
    g_option = spank::parse_option(argument);
    g_option_was_lost = false;
    if (remote == 0) {
      if (const Result<void> taken = take_option_here(*g_option); !taken) {
        spank::print_error(taken.error());
        // Nothing has begun. Slurm would say "Invalid --ddp argument: " with the whole argument, or (null), and end
        // with 1.
        ::_exit(to_int(taken.error().exit_code));
      }
    }
    return ESPANK_SUCCESS;
  });
  return remote == 0 ? status : ESPANK_SUCCESS;  // on a node task_init ends the task instead
}

}  // namespace

// spank.h declares them without noexcept; run_hook() is what lets no exception out.
extern "C" {

int slurm_spank_init(spank_t handle, int argument_count, char** arguments) {
  const spank_context_t context = spank_context();
  const int status = run_hook([&]() -> int {
    if (context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR || context == S_CTX_REMOTE) {
      static spank_option option = spank::ddp_option(on_option);
      g_site = spank::site_profile(argument_count, arguments);
      g_task_prolog = spank::task_prolog(argument_count, arguments);
      if (context == S_CTX_LOCAL) {
        g_ends_with_first_failure = spank::announce_end_with_first_failure(g_site);
      }
      if (context == S_CTX_ALLOCATOR) {
        spank::drop_values_of_step_around();
      }
      if (context == S_CTX_LOCAL && g_task_prolog) {
        spank::announce_task_prolog(*g_task_prolog);
      }
      spank_option_register(handle, &option);
    }
    return ESPANK_SUCCESS;
  });
  return context == S_CTX_REMOTE ? ESPANK_SUCCESS : status;
}

int slurm_spank_init_post_opt(spank_t, int, char**) {
  if (g_ends_with_first_failure) {
    spank::withdraw_end_with_first_failure();
  }
  // Slurm itself fails a task whose prolog is missing.
  if (spank_context() != S_CTX_LOCAL || g_task_prolog || !g_option || !g_option->enabled) {
    return ESPANK_SUCCESS;
  }
  return run_hook([]() -> int {
    spank::make_a_missing_node_half_an_error();
    return ESPANK_SUCCESS;
  });
}

int slurm_spank_user_init(spank_t handle, int, char**) {
  run_hook([&]() -> int {
    if (g_option && g_option->enabled && spank::is_srun_step(handle)) {
      g_shared = spank::share_among_tasks(handle);
    }
    return ESPANK_SUCCESS;
  });
  return ESPANK_SUCCESS;  // whatever happened: a failure here would drain the node
}

int slurm_spank_task_init(spank_t handle, int, char**) {
  bool promised = false;
  const int status = run_hook([&]() -> int {
    if (!spank::is_srun_step(handle)) {
      spank::drop_values_of_other_steps(handle);  // of a task that submitted this job
      return ESPANK_SUCCESS;
    }
    promised = g_option_was_lost || (g_option && g_option->enabled);
    if (g_option_was_lost) {
      spank::end_task(handle,
                      fail("--ddp", "", "could not be taken over on the node", "reporting it", ExitCode::Internal));
    }
    if (promised) {
      spank::set_up_task(handle, *g_option, g_site, g_shared);
    } else {
      spank::drop_values_of_other_steps(handle);
    }
    return ESPANK_SUCCESS;
  });
  if (status != ESPANK_SUCCESS && promised) {
    ::_exit(to_int(ExitCode::Internal));  // under `optional` the program would run without what it was promised
  }
  return ESPANK_SUCCESS;
}
}
