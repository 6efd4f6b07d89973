#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"

namespace rollcall::job {

/// What is true of this step, whoever said it (Slurm, PMIx, the user). Gathered by `launchers` and `step`, or by the
/// plugin; `resolve` turns it into an environment. Everything is the *step's*, never the job's: node list, ranks,
/// reserved ports. In a het step it describes the one world across components.
struct JobFacts {
  std::string source;  ///< who answered: "environment", "pmix", "ompi", "pmi", "slurm", "spank", "single"

  std::optional<std::uint32_t> job_id;
  std::optional<std::uint32_t> step_id;
  std::optional<std::uint32_t> enclosing_job;  ///< of a single process that no srun started: the job that it is in
  std::uint32_t restart_count = 0;             ///< how often the job was requeued (SLURM_RESTART_COUNT)
  /// The ranks are tasks of this step for certain: not those of a launcher whose ranks may just look like them on some
  /// nodes.
  bool is_slurms_step = true;
  std::uint32_t port_salt = 0;  ///< without a step id: tells concurrent runs on one host apart, the same in all ranks

  std::uint32_t rank = 0;  ///< 0 <= rank < world_size
  std::uint32_t world_size = 1;
  std::uint32_t local_rank = 0;  ///< 0 <= local_rank < local_world_size
  std::uint32_t local_world_size = 1;
  std::uint32_t node_rank = 0;        ///< index of this node in the step
  std::uint32_t first_rank_here = 0;  ///< the rank of this node's local rank 0 (SLURM_GTIDS), else a guess
  std::uint32_t num_nodes = 1;

  std::vector<std::string> hosts;             ///< names of the step's nodes, expanded, by node rank; may be empty
  std::vector<std::uint32_t> tasks_per_node;  ///< parallel to `hosts`; may be empty
  std::string head_host;                      ///< the host of rank 0, as Slurm names it; empty: unknown
  bool head_known_to_all = true;  ///< false: rank 0 may know `head_host`, others cannot (arbitrary distribution)
  std::string this_host;          ///< this node's name as Slurm names it

  bool het = false;                            ///< a step of a het job (SLURM_HET_SIZE)
  std::vector<std::uint32_t> component_nodes;  ///< het: nodes of each component in this step, in order; may be unknown
  std::uint32_t world_index = 0;  ///< which of the step's worlds this is: with world=component its component's index
  std::uint32_t first_rank = 0;   ///< the rank within the whole step of this world's rank 0

  std::uint16_t agreed_port = 0;  ///< the port that rank 0 found free and told all ranks; 0: none was agreed on
  std::string reserved_ports;     ///< SLURM_STEP_RESV_PORTS or empty
  std::string step_gpus;          ///< the step's GPUs on this node where the source knows them (the plugin), or empty
  bool sees_accelerator = true;   ///< whether a device of any accelerator is this task's to use, or nobody looked
  std::vector<std::string> warnings;  ///< disagreements that do not stop the job ("PMIx says rank 3, Slurm 2")
};

/// Which nodes a step has and how many tasks each, in the order of node ranks.
struct StepLayout {
  std::vector<std::string> hosts;
  std::vector<std::uint32_t> tasks_per_node;     ///< parallel to `hosts`
  std::vector<std::uint32_t> component_nodes;    ///< of a het step: nodes of each component, in order
  std::vector<std::uint32_t> component_offsets;  ///< parallel: which component of the het job it is, from 0
  std::string head_host;                         ///< rank 0's
};

/// Takes over what a better source says of the layout; `local_world_size` follows. A layout of other sizes than the
/// facts' is passed over. Pure.
void adopt_layout(const StepLayout& layout, JobFacts& facts);

/// Seconds in squeue's notation of the time left (%L): "1-02:03:04", "2:03:04", "3:04". Nothing for "UNLIMITED",
/// "NOT_SET", "INVALID" and all else. Pure.
[[nodiscard]] std::optional<std::int64_t> parse_time_left(std::string_view text);

/// This job as Slurm's commands name it; empty outside of a job. Its number, but "12_3" for the element that has the
/// array's own: there the number alone means all of them (squeue(1), --jobs). Any other array in the environment may be
/// that of a job which submitted this one.
[[nodiscard]] std::string job_name_for_slurm(const Environment& environment);

/// When Slurm ends this job, in seconds since the epoch, `now` being the same clock: SLURM_JOB_END_TIME (Slurm 24.11
/// and newer), or squeue is asked. Nothing outside of a job, without a limit, or where squeue does not answer.
[[nodiscard]] std::optional<double> job_end_time(const Environment& environment, double now);

/// What squeue says: also right after somebody changed the limit of the running job. Nothing as above.
[[nodiscard]] std::optional<double> ask_job_end_time(const Environment& environment, double now);

}  // namespace rollcall::job
