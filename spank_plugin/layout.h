#pragma once

#include <cstdint>

#include "spank_plugin/buffer.h"

namespace rollcall::spank {

// These functions ask slurmctld through Slurm's library. Call them only in srun and in task_init: around earlier hooks
// Slurm 24.11 holds a lock that the library's requests need, and slurmstepd would end. They return false where
// slurmctld does not answer or this Slurm cannot ask.

/// Appends the layout of a step, "NODE-LIST NODE-OF-RANK-0 TASKS TASKS ...", with the tasks of each node. `question` is
/// "JOB STEP"; a component of a het job has its own job id. One request of 1-9 ms.
[[nodiscard]] bool append_layout(const char* question, Buffer& answer);

/// Appends the address by which Slurm reaches `node`. One request.
[[nodiscard]] bool append_node_address(const char* node, Buffer& answer);

/// Appends "NODE ADDRESS", the node of a step's rank 0 and the address by which Slurm reaches it. Two requests.
[[nodiscard]] bool append_head_address(std::uint32_t job, std::uint32_t step, Buffer& answer);

}  // namespace rollcall::spank
