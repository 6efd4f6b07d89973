// The hooks that Slurm calls. None of them fails on a node before task_init, because an earlier failure drains the
// node. Without --ddp they only read flags and variables.

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "runtime/contract/env_vars.h"
#include "spank_plugin/request.h"
#include "spank_plugin/site.h"
#include "spank_plugin/slurm_spank.h"
#include "spank_plugin/submit.h"
#include "spank_plugin/task.h"

SPANK_PLUGIN(rollcall, 1)

namespace {

using namespace rollcall;

// Global state: srun, sbatch and salloc handle one command line, slurmstepd one step. Tasks inherit it by fork.
spank::Site g_site;
char* g_option = nullptr;        ///< the argument of --ddp, "" where it has none; null: not given, or off
bool g_option_was_lost = false;  // on a node Slurm ignores an error of the option's callback
spank::SharedByTasks g_shared;
spank::StepSecret g_secret;
spank::StepLog g_log;

// SPANK takes pointers to mutable text and keeps them.
char g_name[] = "ddp";
char g_argument[] = "[key=value,...]";
char g_usage[] =
    "give every task a PyTorch rendezvous on this site's network (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE, "
    "LOCAL_RANK, "
    "interfaces, ...); key=value,... overrides settings for this step (a comma inside a value is written +), off turns "
    "it off; 'rollcall env' shows the values, 'man rollcall-spank' the rest";

/// Reads the arguments of this plugin's line in plugstack.conf, which SPANK keeps as long as the plugin is loaded.
spank::Site read_site(int argument_count, char** arguments) {
  spank::Site site;
  const struct {
    std::string_view key;
    const char** value;
  } known[]{{"config=", &site.config},
            {"config_owner=", &site.config_owner},
            {"task_prolog=", &site.task_prolog},
            {"rollcall=", &site.program},
            {"log=", &site.log}};
  for (int i = 0; i < argument_count; ++i) {
    for (const auto& [key, value] : known) {
      if (std::string_view(arguments[i]).starts_with(key) && *value == nullptr) {
        *value = arguments[i] + key.size();
      }
    }
  }
  return site;
}

/// Returns whether this step is logged to syslog.
bool is_logged(spank_t handle) {
  return g_option != nullptr && g_site.log != nullptr && std::strcmp(g_site.log, "syslog") == 0 &&
         spank_context() == S_CTX_REMOTE && spank::is_srun_step(handle);
}

/// Ends srun, sbatch or salloc on a failure, before the step starts. Slurm itself would print "Invalid --ddp argument:
/// " with the whole argument, or (null), and exit with 1.
void end_where_it_failed(const spank::Failure& failure) {
  if (failure) {
    if (failure.text[0] != '\0') {
      slurm_error("%s", failure.text);
    }
    spank::end_program();
    ::_exit(failure.exit_code);
  }
}

/// Takes an argument over. Slurm writes a bare `--ddp` in four ways, by place and version: a null pointer, "", "(null)"
/// and (from `--ddp=`) "" again; all mean "on". False: no memory.
bool take_option(const char* argument) {
  const char* const text = argument == nullptr || std::strcmp(argument, "(null)") == 0 ? "" : argument;
  ::free(g_option);
  g_option = nullptr;
  if (std::strcmp(text, "off") == 0) {
    return true;
  }
  g_option = ::strdup(text);
  return g_option != nullptr;
}

/// Called for every --ddp that Slurm meets, at times twice for one: the last word counts.
int on_option(int, const char* argument, int remote) {
  g_option_was_lost = !take_option(argument);
  if (remote != 0) {
    return ESPANK_SUCCESS;  // task_init ends the task instead
  }
  if (g_option_was_lost) {
    return ESPANK_ERROR;
  }
  if (g_option != nullptr || g_site.task_prolog != nullptr) {
    end_where_it_failed(spank::submit(nullptr, g_site, "option", g_option));
  }
  return ESPANK_SUCCESS;
}

spank_option g_ddp{g_name, g_argument, g_usage, 2, 0, on_option};  // 2: the argument may be left out

}  // namespace

extern "C" {

int slurm_spank_init(spank_t handle, int argument_count, char** arguments) {
  const spank_context_t context = spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE) {
    return ESPANK_SUCCESS;
  }
  g_site = read_site(argument_count, arguments);
  if (context != S_CTX_REMOTE) {
    ::unsetenv(env::kSecretFd.data());    // inherited from the step that called this srun, sbatch or salloc
    ::unsetenv(env::kStepSecret.data());  // likewise on a node without the plugin; slurmctld stores sbatch's variables
  }
  if (context != S_CTX_REMOTE && spank::init_has_work(g_site)) {
    // A failure because of this command's own option is reported by that option's hook.
    (void)spank::submit(handle, g_site, "init", nullptr);
  }
  spank_option_register(handle, &g_ddp);
  return ESPANK_SUCCESS;
}

int slurm_spank_init_post_opt(spank_t handle, int, char**) {
  if (spank_context() == S_CTX_REMOTE) {
    return ESPANK_SUCCESS;
  }
  if (spank_context() == S_CTX_LOCAL && (g_option != nullptr || spank::program_runs())) {
    end_where_it_failed(spank::submit(handle, g_site, "post_opt", g_option));
    if (g_option != nullptr && g_site.task_prolog == nullptr) {
      end_where_it_failed(spank::draw_secret());
    }
  }
  spank::end_program();
  return ESPANK_SUCCESS;
}

int slurm_spank_local_user_init(spank_t handle, int, char**) {
  if (g_option != nullptr) {
    spank::export_head_address(handle);
  }
  return ESPANK_SUCCESS;
}

int slurm_spank_user_init(spank_t handle, int, char**) {
  g_secret.take(handle);
  if (g_option != nullptr && spank::is_srun_step(handle)) {
    g_shared.make(handle);
  }
  return ESPANK_SUCCESS;  // always, because a failure here would drain the node
}

int slurm_spank_task_init(spank_t handle, int, char**) {
  const bool in_step = spank::is_srun_step(handle);  // a batch script may inherit --ddp from the submitting task
  if (in_step && g_option_was_lost) {
    spank::end_task(
        spank::failed(ExitCode::Internal,
                      "rollcall: --ddp: slurmstepd had no memory to keep its value; try asking Slurm for more (--mem)"),
        g_shared);
  }
  if (in_step && g_option != nullptr) {
    spank::set_up_task(handle, g_site, g_option, g_shared);
    if (const spank::Failure failure = g_secret.hand_over(handle); failure) {
      spank::end_task(failure, g_shared);
    }
  } else {
    spank_unsetenv(handle, env::kSecretFd.data());
    spank::drop_other_steps_variables(handle, g_site);
  }
  return ESPANK_SUCCESS;
}

int slurm_spank_task_exit(spank_t handle, int, char**) {
  if (is_logged(handle)) {
    g_log.task_ended(handle);
  }
  return ESPANK_SUCCESS;
}

int slurm_spank_exit(spank_t handle, int, char**) {
  if (is_logged(handle)) {
    g_log.write(handle);
  }
  return ESPANK_SUCCESS;
}
}
