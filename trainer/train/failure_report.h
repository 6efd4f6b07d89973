#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/base/result.h"

namespace rollcall::train {

/// Sees to it that a failure is told once, by the rank that knows the cause: "rollcall: ...; try ... (rank 3 on
/// jwb0002)". Ranks claim the right to print through the store; before there is one, only rank 0 prints what all ranks
/// see alike. Used by the main thread only.
class FailureReport {
 public:
  FailureReport(std::uint32_t rank, std::uint32_t local_rank, std::uint32_t world_size, std::string host);

  void attach(c10::intrusive_ptr<c10d::Store> store) { store_ = std::move(store); }

  /// A failure that every rank sees alike (settings, head node's name): rank 0 prints. Returns its exit code.
  int common(const Error& error) const;
  /// A failure that this node sees, and perhaps all do (the head node's name does not resolve): rank 0 prints at once;
  /// the first rank of another node a second later, if the step still lives, for then rank 0 does not share the
  /// failure.
  int of_this_node(const Error& error) const;
  /// This rank's own failure: printed, unless another rank was first. Returns its exit code, or that of the other's
  /// where this one is Unavailable and so may well follow from it. Where the device fails, the process has 15 s to let
  /// go of all.
  int own(const Error& error);
  /// The failure of a collective: printed only if no rank told its cause, that is, if a rank died without a word.
  /// Returns the exit code of the cause where it is known: the step's exit code is the highest of its ranks'. From here
  /// on the process has 2 s to let go of its process groups; then it ends with that code. Gloo now and then holds on to
  /// a collective whose peer is gone until it times out, and its destructor waits for that.
  int lost_peer(const Error& error);

  /// The same of a rank that may live on, without a word. It has 15 s to finish a save that is under way; then
  /// lets_go() gives it 2 s to let go of its groups, and survives() says that it has.
  int may_survive(const Error& error);
  void lets_go(int code);
  void survives();

  /// To be called when the process groups are gone. Rank 0 holds the store: before it leaves after a failure it gives
  /// the others time to ask whether somebody has printed, and for the exit code of the cause. It waits no longer than
  /// until all have their answers, and at most longest_linger(). Other ranks return at once.
  void linger() const;
  /// 10 s where the failure is rank 0's own, for the others live and will notice; 1 s where a peer was lost, which
  /// cannot ask.
  [[nodiscard]] std::chrono::seconds longest_linger() const { return std::chrono::seconds(is_cause_ ? 10 : 1); }

  /// Prints without asking anybody: for a failure that all ranks know of and agreed that this one tells.
  int agreed(const Error& error) const;

 private:
  enum class Claim { First, Late, NoStore };
  Claim claim() const;
  void leave_code(int code) const;
  void needs_store_no_more() const;
  void end_process_unless_ended(int code, std::chrono::seconds patience) const;
  std::optional<int> code_of_the_cause() const;
  void print(const Error& error) const;

  std::uint32_t rank_;
  std::uint32_t local_rank_;
  std::uint32_t world_size_;
  std::string host_;
  bool is_cause_ = false;  ///< own() was called
  std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace rollcall::train
