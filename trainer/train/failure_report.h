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

/// Ensures that a failure is printed once, by the rank that knows the cause: "rollcall: ...; try ... (rank 3 on
/// jwb0002)". An error of usage names no rank. The Membership decides which rank prints. For the main thread only.
class FailureReport {
 public:
  FailureReport(std::uint32_t rank, std::uint32_t local_rank, std::string host);

  /// `store` is kept until all failures are reported, because rank 0's store serves the other ranks.
  void attach(std::shared_ptr<const process_group::Membership> membership, c10::intrusive_ptr<c10d::Store> store) {
    membership_ = std::move(membership);
    store_ = std::move(store);
  }

  // Before training. These return the exit code.

  /// Reports a failure that all ranks have alike (settings, the head node's name): rank 0 prints it. The others end
  /// after it: connected ranks once it has left, others at SIGTERM or after kOtherTaskReports.
  int report_on_rank_zero(const Error& error) const;
  /// Reports options that are refused, here and perhaps not on other ranks. One rank of rank 0's node prints the error,
  /// and one of each node if it is `of_this_node`. `occasion` is a name that only the tasks of this step have.
  int report_options(const Error& error, const std::string& occasion) const;
  /// Reports a failure of this rank before the ranks are connected. If it is `of_this_node`, the first rank of this
  /// node that calls this prints it (see is_first_on_host()). Otherwise rank 0 prints it, as in report_on_rank_zero();
  /// if `rank_0_agrees`, rank 0 does not have it and rank 1 prints it.
  int report_before_connecting(const Error& error, const std::string& occasion, bool rank_0_agrees) const;

  struct Reported {
    int exit_code = 0;
    Error cause;  ///< another rank's error if this rank's error only follows from it
  };
  /// Reports a failure of this rank or of all ranks: prints it unless another rank was first. The exit code of a step
  /// is the highest of its ranks, so a rank that lost a peer returns the exit code of the cause. If a peer was lost or
  /// the device fails, the process exits by itself when destroying the groups takes too long (deadlines.h).
  Reported report_once(const Error& error);
  /// Does the same as report_once() and returns the exit code only.
  int report_own(const Error& error) { return report_once(error).exit_code; }
  /// Prints a failure without asking other ranks: all ranks know of it and agreed that this one prints it.
  int report_agreed(const Error& error) const;

  // A rank that may continue without its lost peers prints nothing. begin_recovery() limits the time until its save has
  // ended, limit_group_release() the time until its groups are destroyed; end_recovery() lifts the limit.
  int begin_recovery(const Error& error);
  void limit_group_release(int code);
  void end_recovery();

  /// Gives the other ranks time to ask the store of rank 0 who reports the cause. Call it after the process groups are
  /// destroyed.
  void shutdown_grace();

 private:
  void end_process_within(std::chrono::seconds patience, int code);
  void print(const Error& error) const;
  int print_once_per_node(const Error& error, const std::string& occasion) const;

  std::uint32_t rank_;
  std::uint32_t local_rank_;
  std::string host_;
  bool printed_ = false;
  /// Set when the work of the current limit has ended in time.
  std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<const process_group::Membership> membership_;
  c10::intrusive_ptr<c10d::Store> store_;
};

/// Prints the warning that srun was forgotten if a single process runs in a job of several nodes, unless `rollcall
/// exec` has printed it.
void warn_of_single_process(const job::JobFacts& facts, const Environment& environment);

}  // namespace rollcall::train
