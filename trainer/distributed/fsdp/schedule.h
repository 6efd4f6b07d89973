#pragma once

#include <c10/core/Stream.h>

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/distributed/fsdp/host_link.h"
#include "trainer/distributed/fsdp/parameter_group.h"
#include "trainer/torch.h"

namespace rollcall::parallel::fsdp {

/// Decides when each block's parameters are gathered and freed and when its gradients are reduced, driven by the events
/// of a forward and a backward pass. Every rank runs the same blocks in the same order, so that collectives match.
///
/// Forward: waits for the block's parameters and starts to gather those of the next blocks, as long as all of them
/// together are not larger than the two largest blocks, but at least those of the next one. Backward, in reverse order:
/// does the same, and once a block's last gradient has arrived frees its parameters and starts its reduction. After a
/// backward, or a forward that no backward follows, has returned, nothing reads or writes the shards any more.
///
/// On a device streams order all this, and the host waits for none of it. An all-gather begins after the work that the
/// compute stream was given before it, and so overlaps the next block's computation. Its memory was free on the compute
/// stream by then. Reductions have their own stream, for which the compute stream waits at the end of the backward, and
/// earlier only for the reads of gradients whose memory is reused (Options::reductions_in_flight).
class Schedule {
 public:
  /// `groups` are in the order in which blocks are expected to run. `root`, one of them or null, is unsharded from the
  /// beginning of the forward to its own last gradient. `host_link` and `reductions` are the groups' own. All outlive
  /// the schedule.
  Schedule(const Options& options, std::vector<ParameterGroup*> groups, ParameterGroup* root, HostLink* host_link,
           const std::optional<c10::Stream>& reductions);
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;
  ~Schedule();

  void begin_forward();
  void end_forward(const at::Tensor& output);
  void before_block(ParameterGroup& group);
  void after_block(ParameterGroup& group, const at::Tensor& output);

  /// Sets whether backward passes reduce gradients or only accumulate them.
  void set_reduce(bool reduce) { reduce_ = reduce; }

 private:
  /// A group's state in the current backward pass.
  struct Entry {
    ParameterGroup* group;
    bool in_backward = false;
    std::size_t missing_gradients = 0;
  };
  struct Running {
    ParameterGroup* group;
    GroupGradients::Reduction reduction;
  };

  [[nodiscard]] Entry& entry_of(const ParameterGroup& group);
  [[nodiscard]] std::vector<ParameterGroup*> all_after(const ParameterGroup& group) const;
  [[nodiscard]] std::vector<ParameterGroup*> all_before(const Entry& entry) const;
  void gather_ahead(const ParameterGroup& group, const std::vector<ParameterGroup*>& next) const;
  void await_gradients(Entry& entry);
  void before_backward(Entry& entry);
  void gradient_arrived(Entry& entry);
  void after_backward(Entry& entry);
  void finish_oldest();
  void end_backward();
  void await_reductions();
  void await_copies();

  const Options& options_;
  HostLink* host_link_;
  const std::optional<c10::Stream>& reduction_stream_;
  std::vector<std::unique_ptr<Entry>> entries_;
  ParameterGroup* root_;
  std::int64_t room_bytes_ = 0;              ///< limit for gathered and pending blocks: the size of the two largest
  std::vector<ParameterGroup*> order_;       ///< in which forwards began in the last whole pass
  std::vector<ParameterGroup*> this_order_;  ///< in which forwards began in this pass
  std::vector<Entry*> forwarded_;            ///< blocks awaiting their backward, in the order their forwards ended
  std::deque<Running> reductions_;
  bool backward_ends_here_ = false;  ///< whether end_backward() is queued
  bool reduce_ = true;
};

}  // namespace rollcall::parallel::fsdp
