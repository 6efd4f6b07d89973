#pragma once

#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "spank_plugin/options.h"

namespace rollcall::spank {

// The submitting side: what srun, sbatch and salloc do about --ddp.

/// Whether the settings would load: a mistake is refused here, once, before anything starts. In srun all layers are
/// looked at; in sbatch and salloc, whose environment need not be the step's, the option's own text. A site profile
/// that does not exist on the submitting host is no error yet: the nodes have the last word. One that the user may not
/// read is an error: each node would say so.
[[nodiscard]] Result<void> check_before_launch(const DdpOption& option, const settings::PluginProfile& site,
                                               bool in_srun);

// Slurm ends a step with its first failing task only where srun is told so (--kill-on-bad-exit), and a program that
// waits for a rank that is gone waits for long.

/// For slurm_spank_init in srun, later is too late: tells srun by SLURM_KILL_BAD_EXIT, if it will be asked for --ddp
/// and the setting kill-on-bad-exit is on. The user's own variable stands, and --kill-on-bad-exit on the command line
/// wins over both. Whether the variable is ours.
[[nodiscard]] bool announce_end_with_first_failure(const settings::PluginProfile& site);
/// For the option's callback in srun: says once that the step will not end with its first failing task, where --ddp was
/// abbreviated or stands behind an option that is not known, so that it was not seen before.
void say_if_end_with_first_failure_is_missing(const DdpOption& option, const settings::PluginProfile& site);
/// For slurm_spank_init_post_opt, when srun has read the variable: the step's own sruns shall not find it.
void withdraw_end_with_first_failure();

/// For slurm_spank_init_post_opt in srun, where --ddp is on and the nodes are to have the plugin: gives the step's
/// tasks values that no program can go on with, in place of those that the node's half sets (but not of the user's
/// own), marked as a rollcall's. Where that half does not run, since the node lacks the plugin or has one of another
/// Slurm, a program would find no world, train alone and end with 0 while the others wait for it. Not where srun's
/// --export keeps the environment from the tasks.
void make_a_missing_node_half_an_error();

/// For slurm_spank_init in sbatch and salloc: removes from this process what a rollcall set in the step that it was
/// called in. The new job would have that step's ranks: a program there that srun did not start would wait for them.
void drop_values_of_step_around();

/// For the option's callback in srun: removes the array and the count of restarts of another job, which submitted this
/// one, so that no task has them. Asks slurmctld where the environment has any such variable (job::own_environment()).
void drop_values_of_another_job(const DdpOption& option);

/// For the option's callback in srun: says once that SLURM_CPU_BIND is not the user's but what Slurm gave a task, of
/// the step that this srun was called in or that submitted the job. srun binds all tasks by it, to that one task's
/// CPUs.
void warn_of_binding_of_another_step(const DdpOption& option);

// An installation without an administrator (`rollcall install --user`): no half of the plugin runs on the nodes, so a
// task prolog does its work. Such a line in plugstack.conf has `task_prolog=PATH`.

/// For slurm_spank_init in srun, later is too late: names `program` as the step's task prolog if this srun asks for
/// --ddp (on its command line, or handed on from the job). The user's own SLURM_TASK_PROLOG will be run by it.
void announce_task_prolog(const std::string& program);

/// For the option's callback in srun: what the prolog is to do. Error: the prolog will not run, since --task-prolog on
/// the command line takes its place or --ddp was abbreviated.
[[nodiscard]] Result<void> hand_to_task_prolog(const std::string& program, const DdpOption& option);

/// For the callback in sbatch: says once that inside the job Slurm goes back to the site's own configuration.
void say_what_a_batch_script_needs();

}  // namespace rollcall::spank
