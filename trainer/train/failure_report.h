#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "trainer/distributed/membership/membership.h"

namespace rollcall::train {

/// Sees to it that a failure is told once, by the rank that knows the cause: "rollcall: ...; try ... (rank 3 on
/// jwb0002)". The Membership decides which rank that is. Used by the main thread only.
class FailureReport {
 public:
  FailureReport(std::uint32_t rank, std::uint32_t local_rank, std::string host);

  /// `store`: rank 0's, which serves the others, is kept until all is told.
  void attach(std::shared_ptr<const process_group::Membership> membership, c10::intrusive_ptr<c10d::Store> store) {
    membership_ = std::move(membership);
    store_ = std::move(store);
  }

  // Before the ranks know each other. Both return the exit code.

  /// A failure that every rank sees alike (settings, head node's name): rank 0 prints.
  int common(const Error& error) const;
  /// A failure `of_this_node`: the first of its ranks prints, by what they all call `step` (is_first_on_host()). Any
  /// other is common(), but that rank 1 prints what spares rank 0.
  int before_others(const Error& error, const std::string& step, bool spares_rank_0) const;

  struct Told {
    int exit_code = 0;
    Error cause;  ///< another rank's, where this one's error only follows from it
  };
  /// A failure of this rank, or of all ranks: printed, unless another rank was first. The step's exit code is the
  /// highest of its ranks', so one that misses a peer ends with the exit code of the cause. Where a peer was lost or
  /// the device fails, the process ends by itself once letting go takes too long (deadlines.h).
  Told tell(const Error& error);
  int own(const Error& error) { return tell(error).exit_code; }
  /// Prints without asking anybody: for a failure that all ranks know of and agreed that this one tells.
  int agreed(const Error& error) const;

  // A rank that may live on, without a word. It has time to finish a save that is under way, then to let go of its
  // groups; survives() says that it has.
  int may_survive(const Error& error);
  void lets_go(int code);
  void survives();

  /// To be called when the process groups are gone: rank 0, which serves the store, stays until the others have asked
  /// who tells what.
  void linger();

 private:
  void end_process_within(std::chrono::seconds patience, int code);
  void print(const Error& error) const;

  std::uint32_t rank_;
  std::uint32_t local_rank_;
  std::string host_;
  bool told_ = false;
  std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);  ///< in time
  std::shared_ptr<const process_group::Membership> membership_;
  c10::intrusive_ptr<c10d::Store> store_;
};

/// Prints the warning that srun was forgotten, where a process alone is in a job of several nodes, unless
/// `rollcall exec` has printed it before.
void warn_of_single_process(const job::JobFacts& facts, const Environment& environment);

}  // namespace rollcall::train
