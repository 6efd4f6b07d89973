#pragma once

#include "spank_plugin/slurm_spank.h"

namespace rollcall::spank {

/// With log=syslog in plugstack.conf: a line to the system's log for each step of srun --ddp, from the node of its rank
/// 0 when the step has ended there:
///
///     rollcall[4711]: --ddp: user 1000, step 12.0, 2 nodes (jwb[0001-0002]), ended with 0
class StepLog {
 public:
  /// For slurm_spank_task_exit.
  void task_ended(spank_t spank);
  /// For slurm_spank_exit. Waits for nothing, unlike syslog(3): a line that the log does not take at once is lost.
  void write(spank_t spank) const;

 private:
  int highest_ = 0;  ///< exit code of this node's tasks; 128 + signal
};

}  // namespace rollcall::spank
