#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/elastic/coordination.h"
#include "runtime/elastic/worker_group.h"

namespace rollcall::elastic {

/// The processes on this node that are in no generation: survivors of the one before, and the standby, a process of the
/// workers' program without a rank, which has loaded what it needs when it takes the place of one that failed. The
/// kernel takes the standby before others where memory runs out. Not thread-safe.
class IdleWorkers {
 public:
  /// Without `standby` there is never one.
  explicit IdleWorkers(bool standby) : standby_wanted_(standby) {}

  /// `survivors`: by local rank; null links: none there.
  void keep(std::vector<Worker> survivors) { survivors_ = std::move(survivors); }
  /// For a place in the next generation: the survivor that had it before, else the standby, else a null link.
  [[nodiscard]] Worker take(std::uint32_t local_rank);
  /// Those that nobody took.
  [[nodiscard]] std::vector<Worker> take_survivors();
  [[nodiscard]] Worker take_standby();
  /// Sends a signal to the process groups of survivors.
  void forward(int signal) const;
  /// To be called after SIGCHLD; tells where the standby has ended.
  void reap(const Tell& tell);

  /// Whether a generation whose workers live on is to have a standby. After a failure that is the next one.
  [[nodiscard]] bool lacks_standby() const { return standby_wanted_ && standby_.pid == 0 && !standby_failed_; }
  void keep_standby(Result<Worker> started);
  void generation_begins() { standby_failed_ = false; }
  /// Where it waits for a place.
  [[nodiscard]] std::optional<pid_t> standby() const;

 private:
  void discard(pid_t pid);

  std::vector<Worker> survivors_;
  Worker standby_;
  bool standby_wanted_;
  bool standby_failed_ = false;
  std::vector<pid_t> discarded_;  ///< killed and not reaped yet
};

}  // namespace rollcall::elastic
