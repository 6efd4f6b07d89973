#pragma once

#include <cstdint>

#include "spank_plugin/buffer.h"

namespace rollcall::spank {

// What only slurmctld knows, and only Slurm's own library can ask. For srun, and for task_init only: around the earlier
// hooks Slurm 24.11 holds a lock that its own library's requests take, and ends slurmstepd. False: slurmctld does not
// answer, or this Slurm does not offer the question.

/// The layout of a step ("JOB STEP"; a component of a het job has a number of its own): "NODE-LIST NODE-OF-RANK-0 TASKS
/// TASKS ...", the tasks of each node. One request, 1-9 ms.
[[nodiscard]] bool append_layout(const char* question, Buffer& answer);

/// The address by which Slurm reaches `node`. One request.
[[nodiscard]] bool append_node_address(const char* node, Buffer& answer);

/// "NODE ADDRESS": the node of a step's rank 0, and the address by which Slurm reaches it. Two requests.
[[nodiscard]] bool append_head_address(std::uint32_t job, std::uint32_t step, Buffer& answer);

}  // namespace rollcall::spank
