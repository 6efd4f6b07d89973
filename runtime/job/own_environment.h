#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"

namespace rollcall::job {

// These functions remove inherited variables of other jobs and steps from an environment. `sbatch` and `salloc` inside
// a job copy that job's variables into the new job, and Slurm overwrites only those that it sets there: a batch script
// has the SLURM_STEP_* of the step that submitted it, and a job that is not an array may have another job's
// SLURM_ARRAY_*. A job or step that was started by a rank of torchrun, mpirun or MPICH's mpiexec (hydra) has that
// rank's variables. Each program calls own_environment() once, at its start.

/// The step that a process runs in, according to the kernel or SPANK.
struct StepOfProcess {
  std::uint32_t job = 0;  ///< for a component of a het job its own id, while SLURM_JOB_ID is the first component's
  std::string step;       ///< "0", or "batch", "interactive", "extern"

  bool operator==(const StepOfProcess&) const = default;
};

/// Facts from other sources than the environment. An unset one is unknown; the environment's value is then used unless
/// the environment contradicts itself.
struct StepEvidence {
  std::optional<StepOfProcess> step{};      ///< from the kernel or SPANK
  std::optional<Environment> given{};       ///< the environment of the first process of the step, or of salloc: from
                                            ///< the kernel or SPANK
  bool has_hydra = false;                   ///< MPICH's or Intel MPI's mpiexec runs below that process: from the kernel
  std::optional<bool> is_array_element{};   ///< from slurmctld
  std::optional<std::uint32_t> restarts{};  ///< from slurmctld
};

/// Returns `environment` without the variables of other jobs and steps. Pure. Removed are:
/// - SLURM_STEP_*, and the PMIX_* and PMI_* of that step, where the process runs in another step or they do not fit the
///   job's nodes. A batch script keeps a SLURM_STEP_ID that identifies it.
/// - in salloc's shell inside a step, also the task's ids, node and job end;
/// - SLURM_HET_SIZE and node lists of another het job;
/// - SLURM_ARRAY_* and SLURM_RESTART_COUNT where `evidence` say so;
/// - the variables of torchrun, mpirun and hydra where the first process of the step, or of salloc, had the same ones,
///   so that their launcher does not run inside. These stay with empty values, so that resolve() can unset them for the
///   program.
[[nodiscard]] Environment without_inherited_variables(Environment environment, const StepEvidence& evidence);

/// Returns the names of the variables that without_inherited_variables() has emptied. Pure.
[[nodiscard]] std::vector<std::string> emptied_variables(const Environment& environment);

/// Parses Slurm's name of a step, "9.batch", or of a het component, "9.0+1". Nothing where it is invalid. Pure.
[[nodiscard]] std::optional<StepOfProcess> parse_step_name(std::string_view text);
/// Finds the step in the title of a slurmstepd ("slurmstepd: [9.batch]"). Pure.
[[nodiscard]] std::optional<StepOfProcess> step_in_title(std::string_view command_line);
/// Finds the step in the content of /proc/PID/cgroup (".../job_9/step_batch/..."). Pure.
[[nodiscard]] std::optional<StepOfProcess> step_in_cgroups(std::string_view content);
/// Parses the content of /proc/PID/environ. Nothing where the last entry has no end, as when the process has
/// overwritten it with a title. Pure.
[[nodiscard]] std::optional<Environment> environment_in(const std::string& content);

/// Returns this process's environment without the variables of other jobs and steps, as far as this node knows. Reads
/// /proc. Call it only in a process of the user.
[[nodiscard]] Environment own_environment(const Environment& environment);

/// Whether one process per node asks slurmctld and answers the others from a thread, or each process asks for itself.
/// The latter is for Slurm's processes, because srun unloads the plugin even if it has threads.
enum class SlurmctldQuery { OncePerNode, PerProcess };

/// Returns `own` without the array and restart count of another job. Only slurmctld knows these, so squeue is called:
/// in an array element whose number differs from the array's, and in a job with a restart count. Where squeue fails,
/// the values are kept, and the first task prints a warning. May wait, so a program calls it only when it needs its
/// step.
[[nodiscard]] Environment with_slurmctld_facts(Environment own, SlurmctldQuery asking = SlurmctldQuery::OncePerNode);

}  // namespace rollcall::job
