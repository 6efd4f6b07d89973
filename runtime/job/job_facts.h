#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"

namespace rollcall::job {

/// The facts of a step from any source (Slurm, PMIx, the user). `launchers` and `step` or the plugin gather them, and
/// `resolve` computes the environment from them. Node list, ranks and reserved ports are those of the *step*, never of
/// the job. In a het step they describe the one world of all components.
struct JobFacts {
  std::string source;  ///< the source: "environment", "pmix", "ompi", "pmi", "slurm", "spank", "single"

  std::optional<std::uint32_t> job_id;         ///< unset outside a step
  std::optional<std::uint32_t> step_id;        ///< unset outside a step
  std::optional<std::uint32_t> enclosing_job;  ///< the job of a single process that srun did not start
  std::uint32_t restart_count = 0;             ///< how often the job was requeued (SLURM_RESTART_COUNT)
  bool is_slurms_step = true;   ///< whether the ranks are certainly Slurm's tasks, not those of another launcher
  std::uint32_t port_salt = 0;  ///< without a step id: differs between concurrent runs on a host, equal in all ranks

  std::uint32_t rank = 0;  ///< 0 <= rank < world_size
  std::uint32_t world_size = 1;
  std::uint32_t local_rank = 0;  ///< 0 <= local_rank < local_world_size
  std::uint32_t local_world_size = 1;
  std::uint32_t node_rank = 0;        ///< index of this node in the step
  std::uint32_t first_rank_here = 0;  ///< the rank of this node's local rank 0: from SLURM_GTIDS, else a guess
  std::uint32_t num_nodes = 1;

  std::vector<std::string> hosts;             ///< names of the step's nodes by node rank; empty: unknown
  std::vector<std::uint32_t> tasks_per_node;  ///< parallel to `hosts`; empty: unknown
  std::string head_host;                      ///< Slurm's name for the node of rank 0; empty: unknown
  bool head_known_to_all = true;  ///< false: rank 0 may know `head_host`, others cannot (arbitrary distribution)
  std::string this_host;          ///< Slurm's name for this node

  bool het = false;                            ///< whether this is a step of a het job (SLURM_HET_SIZE)
  std::vector<std::uint32_t> component_nodes;  ///< number of nodes of each het component in this step; empty: unknown
  std::uint32_t world_index = 0;  ///< index of this world in the step: with world=component, that of its component
  std::uint32_t first_rank = 0;   ///< rank in the whole step of this world's rank 0

  std::uint16_t agreed_port = 0;      ///< the port that rank 0 found free and sent to all ranks; 0: none
  std::string reserved_ports;         ///< SLURM_STEP_RESV_PORTS; may be empty
  std::string step_gpus;              ///< the step's GPUs on this node; empty: unknown (only the plugin knows them)
  bool sees_accelerator = true;       ///< whether this task may use an accelerator; true until it is checked
  std::vector<std::string> warnings;  ///< contradictions that do not stop the job
};

inline constexpr std::string_view kNoLauncher = "no launcher detected; assuming a single rank";

/// Returns the name of JobFacts::source in messages: "Slurm", "PMIx", "Open MPI's mpirun". Pure.
[[nodiscard]] std::string_view launcher_name(std::string_view source);

/// The nodes of a step and their numbers of tasks, in the order of node ranks.
struct StepLayout {
  std::vector<std::string> hosts;
  std::vector<std::uint32_t> tasks_per_node;     ///< parallel to `hosts`
  std::vector<std::uint32_t> component_nodes;    ///< for a het step: number of nodes of each component
  std::vector<std::uint32_t> component_offsets;  ///< parallel to it: index of the component in the het job
  std::string head_host;                         ///< the host of rank 0
};

/// Replaces the layout in `facts` by one from a better source, and updates `local_world_size`. A layout whose sizes
/// differ from those of `facts` is ignored. Pure.
void adopt_layout(const StepLayout& layout, JobFacts& facts);

/// Parses squeue's notation of the time left (%L), "1-02:03:04", "2:03:04" or "3:04", into seconds. Nothing for
/// "UNLIMITED", "NOT_SET", "INVALID" and other texts. Pure.
[[nodiscard]] std::optional<std::int64_t> parse_time_left(std::string_view text);

/// Returns this job's name for Slurm's commands; empty outside a job. It is the job's number, but "12_3" for the array
/// element whose number is the array's: there the number alone means all elements (squeue(1), --jobs). Other array
/// variables may have been inherited from the job that submitted this one, and are ignored.
[[nodiscard]] std::string job_name_for_slurm(const Environment& environment);

/// Returns when Slurm ends this job, in seconds since the epoch: SLURM_JOB_END_TIME (Slurm 24.11 and newer), else
/// squeue's answer added to `now`. Nothing outside a job, without a limit, or where squeue does not answer.
[[nodiscard]] std::optional<double> job_end_time(const Environment& environment, double now);

/// Asks squeue for the end of this job, which includes changes of a running job's limit. Nothing as for job_end_time().
[[nodiscard]] std::optional<double> ask_job_end_time(const Environment& environment, double now);

}  // namespace rollcall::job
