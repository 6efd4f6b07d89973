#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/elastic/coordinator_link.h"
#include "runtime/elastic/worker_group.h"

namespace rollcall::elastic {

/// The processes of this node that belong to no generation: survivors of the previous one, and the standby. The standby
/// runs the workers' program without a rank and has loaded its modules, so that it can quickly replace a failed worker.
/// Under memory pressure the kernel kills the standby first. Not thread-safe.
class IdleWorkers {
 public:
  /// Without `standby`, none is started.
  explicit IdleWorkers(bool standby) : standby_wanted_(standby) {}

  /// Stores the survivors by local rank; a null link marks a local rank without one.
  void keep(std::vector<Worker> survivors) { survivors_ = std::move(survivors); }
  /// Returns a process for this local rank: its survivor, otherwise the standby, otherwise a null link.
  [[nodiscard]] Worker take(std::uint32_t local_rank);
  /// Returns the survivors that take() has not returned.
  [[nodiscard]] std::vector<Worker> take_survivors();
  [[nodiscard]] Worker take_standby();
  /// Sends a signal to the process groups of the survivors.
  void forward(int signal) const;
  /// Collects ended processes; to be called after SIGCHLD. Reports where the standby has ended.
  void reap(const PrintLine& print_line);

  /// Returns whether a standby should be started for a generation with survivors. After a failed start, the next
  /// generation tries again.
  [[nodiscard]] bool lacks_standby() const { return standby_wanted_ && standby_.pid == 0 && !standby_failed_; }
  void keep_standby(Result<Worker> started);
  void generation_begins() { standby_failed_ = false; }
  /// Returns the standby's pid while it waits to be used.
  [[nodiscard]] std::optional<pid_t> standby() const;

 private:
  void discard(pid_t pid);

  std::vector<Worker> survivors_;
  Worker standby_;
  bool standby_wanted_;
  bool standby_failed_ = false;
  std::vector<pid_t> discarded_;  ///< killed but not yet reaped
};

}  // namespace rollcall::elastic
