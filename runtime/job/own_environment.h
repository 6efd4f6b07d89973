#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"

namespace rollcall::job {

// Whose is a value of the environment? `sbatch` and `salloc` called inside a job copy that job's variables into the new
// one, and Slurm overwrites only those that it sets there: a batch script has the SLURM_STEP_* of the step that
// submitted it, a job that is no array the SLURM_ARRAY_* of one. A job or step that a rank of torchrun or mpirun starts
// has what these told that rank. Each program of ours asks here once, when it takes its environment; nothing below it
// asks again.

/// The step that a process runs in, whatever its environment says.
struct StepOfProcess {
  std::uint32_t job = 0;  ///< of a component of a het job: its own number, SLURM_JOB_ID is the first component's
  std::string step;       ///< "0", or "batch", "interactive", "extern"

  bool operator==(const StepOfProcess&) const = default;
};

/// What others than the environment say. Absent: nobody does, and what the environment itself does not contradict is
/// believed.
struct Witnesses {
  std::optional<StepOfProcess> step{};      ///< the kernel, or SPANK
  std::optional<Environment> given{};       ///< what the step's first process was started with: the kernel, or SPANK
  std::optional<bool> is_array_element{};   ///< slurmctld
  std::optional<std::uint32_t> restarts{};  ///< slurmctld
};

/// `environment` without what another job or step left in it:
/// - SLURM_STEP_*, and PMIx's and PMI's of that step, where the process runs in another step, or where they do not fit
///   the job's nodes. A batch script keeps a SLURM_STEP_ID that says what it is;
/// - in salloc's shell inside a step the task's own numbers, node and job end as well;
/// - SLURM_HET_SIZE and node lists of a het job with another number;
/// - SLURM_ARRAY_* and SLURM_RESTART_COUNT where the witness says otherwise;
/// - what torchrun and mpirun tell their ranks where the step's first process was given it already: a launcher
///   inside of the step starts later. These stay, empty, so that resolve() sees what the program is not to have either.
/// Pure.
[[nodiscard]] Environment without_values_of_others(Environment environment, const Witnesses& witnesses);

/// What without_values_of_others() has emptied. Pure.
[[nodiscard]] std::vector<std::string> emptied(const Environment& environment);

/// "9.batch" as Slurm writes a step, or "9.0+1", its second component; nothing where it is none. Pure.
[[nodiscard]] std::optional<StepOfProcess> step_named(std::string_view text);
/// "JOB.STEP" in the title of a slurmstepd ("slurmstepd: [9.batch]") and in /proc/PID/cgroup
/// (".../job_9/step_batch/..."). Pure.
[[nodiscard]] std::optional<StepOfProcess> step_in_title(std::string_view command_line);
[[nodiscard]] std::optional<StepOfProcess> step_in_cgroups(std::string_view content);
/// What /proc/PID/environ says; nothing where its last entry has no end, as where the process wrote a title over it.
/// Pure.
[[nodiscard]] std::optional<Environment> environment_in(const std::string& content);

/// This process's environment without what another job or step left in it, as far as this node tells. Reads /proc. For
/// a process of the user's own.
[[nodiscard]] Environment own_environment(const Environment& environment);

/// Who asks slurmctld: one process of a node for all, which then has a thread that answers the others; or this one for
/// itself, where it is Slurm's (srun unloads the plugin, whatever threads it has).
enum class Asking { OnceANode, ForItself };

/// `own` without an array and a count of restarts that are another job's, which nothing on a node tells: slurmctld is
/// asked (squeue), only in an array's element whose number is not the array's, and in a job that says that it was
/// requeued. Where it does not answer they are believed, which the first task says on standard error. For programs that
/// look at their step, once they know that they will: this may wait.
[[nodiscard]] Environment with_slurmctlds_word(Environment own, Asking asking = Asking::OnceANode);

}  // namespace rollcall::job
